"""A page of Streamlit: a button whose answer comes through a WebSocket."""

import streamlit as st

st.title("Streamlit")
if st.button("Who am I?"):
    st.session_state.user = st.context.headers["X-Forwarded-User"]
if "user" in st.session_state:
    st.write(f"You are {st.session_state.user}")
