"""What arguments may be, by torch's rules: types, alpha, indices, layouts, and what is refused."""
