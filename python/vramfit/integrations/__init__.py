"""Integrations with other libraries' training loops. Each library is imported only when its module is used."""
