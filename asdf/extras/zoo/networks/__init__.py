"""Front ends, back ends and networks of single papers or toolkits."""
