"""The service: experiments over HTTP, for people, programs and workers of any machine."""
