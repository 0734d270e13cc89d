from django.test import TestCase

from itinerary.testing import Service
from orders.models import Order
from orders.tasks import confirm, report
from shop.celery import app


class Orders(TestCase):
    def setUp(self):
        self.service = self.enterContext(Service(app))

    def test_an_order_is_confirmed_once_it_is_committed(self):
        with self.captureOnCommitCallbacks(execute=True):
            self.client.post("/orders/", {"email": "a@example.org"})
        self.service.assert_enqueued(confirm, times=1)
        self.service.run_due()
        self.assertTrue(Order.objects.get().confirmed)

    def test_an_order_that_is_not_committed_enqueues_nothing(self):
        with self.captureOnCommitCallbacks(execute=False):
            self.client.post("/orders/", {"email": "a@example.org"})
        self.service.assert_enqueued(confirm, times=0)

    def test_the_report_counts_what_waits(self):
        Order.objects.create(email="a@example.org")
        self.assertEqual(report(), 1)
