"""Tables of nodes and edges as client graphs, by a schema that all sites share.

A :class:`~autofgl.tables.schema.Schema` says which column is what. It is drafted from one site's
table, extended by the others' (:mod:`~autofgl.tables.draft`), and then every site's table is
checked against it (:mod:`~autofgl.tables.intake`), so that columns of ``x`` mean the same
everywhere. Nothing here needs torch.
"""
