"""The rules of a design. Each returns decisions with their reason, their alternatives and the page that explains them."""
