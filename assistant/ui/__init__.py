"""The Streamlit user interface: pages draw values and return intents, which `app` carries out."""
