"""Runs as strategies see them: observations, failures and measured tables; imports `space`."""
