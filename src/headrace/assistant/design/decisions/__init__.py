"""The rules of a design: each returns decisions with a reason, alternatives and the page that explains them."""
