"""What convolutions compute with: sparse products, attention, dropout, linear maps."""
