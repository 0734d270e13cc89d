from celery import shared_task

from itinerary import schedule
from orders.models import Order


@shared_task
def confirm(order_id):
    """Confirm one order; the view enqueues it once the order is committed."""
    Order.objects.filter(pk=order_id).update(confirmed=True)


@schedule.cron("0 7 * * mon-fri", overlap="skip")
@shared_task
def report():
    """Count the orders that wait for their confirmation."""
    return Order.objects.filter(confirmed=False).count()
