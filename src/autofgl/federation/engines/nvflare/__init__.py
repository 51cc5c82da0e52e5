"""Parties at sites of their own, over NVFlare. The only importer of nvflare.

Coordinator: ``engine`` (the federation) calls through ``line`` (messages to the job's process),
and ``job`` starts the job. Site: ``site`` (what NVFlare builds in its processes) hands every call
to ``host`` (the party). ``kits`` issues certificates, ``processes`` runs servers and sites.
"""
