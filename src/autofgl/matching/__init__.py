"""Which nodes of a site are known at other sites, and the edges between them.

Tables name accounts by ids. Private set intersection tells two sites the ids that both have
(:mod:`~autofgl.matching.intersection`), and nothing of the others; from them follow the edges
between the sites (:mod:`~autofgl.matching.links`), which go into their graph files as boundaries.
:mod:`~autofgl.matching.client` has a site's part, :mod:`~autofgl.matching.server` relays sealed
messages between the sites.
"""
