"""Circuits, live: the router.  Run it with ``streamlit run app.py``."""

import streamlit as st

from pages import ui

st.set_page_config(page_title="Circuits, live", page_icon=ui.ICON, layout="wide")
ui.style()
ui.spare_the_collector()
page = ui.navigation()
with ui.routed(page), ui.readable_errors():
    ui.prompt_bar(ui.current_page(page))
    page.run()
