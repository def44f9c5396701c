"""The Streamlit user interface: pages show data and return user requests, which `app` executes."""
