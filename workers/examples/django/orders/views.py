from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from itinerary.django import enqueue_on_commit
from orders.models import Order
from orders.tasks import confirm


@csrf_exempt  # so that curl can try it
@transaction.atomic
def place_order(request: HttpRequest) -> JsonResponse:
    """Store an order; its confirmation is enqueued if, and only if, the order is committed."""
    order = Order.objects.create(email=request.POST["email"])
    enqueue_on_commit(confirm.name, [order.pk])
    return JsonResponse({"order": order.pk})
