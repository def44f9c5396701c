"""Texts for people: numbers in words, and sentences on the forecast."""
