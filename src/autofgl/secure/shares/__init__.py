"""Masked sums: the parties' vectors are integers modulo 2**64 that look random to the server.

**shares**: t of n, survives lost parties. After Bonawitz et al., "Practical secure aggregation for
privacy-preserving machine learning", CCS 2017. In the sum of one tag, party u holds the integers
x_u and sends, modulo 2**64::

    y_u = x_u + PRG(b_u) + sum over v > u of PRG(s_uv) - sum over v < u of PRG(s_uv)

The pairwise masks s_uv, which u and v derive from their common secret and the tag, cancel in the
sum. The self masks b_u do not: u also sends a t-of-n sharing of b_u, one encrypted share for each
peer, with its word on whether x_u is more than zeros. To open the sum the server asks in phases:

- ``settle``, only if a party v is lost, that is, did not contribute: each contributor u encrypts
  its masks s_uv with the lost and sends that with a t-of-n sharing of the key, which serves for a
  sum without exactly these parties. One that does not answer is lost as well, and the others are
  asked again, until no more are lost. Nothing can be read yet.
- ``confirm``: everybody is shown the contributors, and confirms them to everybody else
  (:mod:`~autofgl.secure.shares.views`): once for each tag, for ever.
- ``reveal``: the confirmations are relayed. A party that sees t of them for what it confirmed
  itself, and enough contributors with more than zeros, tells its shares of the contributors' b_u
  and of the keys to what they put aside for the lost. Any t parties are enough: whoever is lost
  after ``settle`` is still in the sum.

With c < 2t - n colluding parties no two sets of contributors get t confirmations, whatever the
server tells to whom. So the server gets b_u of one set of contributors and their s_uv with all
others, which is the sum and nothing else: for any smaller set it lacks an s_uv between two honest
parties, for a party that it called lost b_u.

We differ from the paper in what happens to a lost party v. There its private key is rebuilt, so
that keys serve for one sum only. Here the contributors put aside their own masks with v, so that
keys live on. Beyond 30 parties sums are made in groups (:mod:`~autofgl.secure.shares.groups`).

**shares-additive**: n of n, as in the ASFGNN paper. Party u splits its integers into one share for
every party::

    x_u = r_uu + sum over v of r_uv

Party v adds up the shares that it was given, and the server adds these n sums. Each r_uv looks
random; only all of them together say something. If one party is lost, the sum is lost. There is no
view to agree on: a party answers once, with a share of each party or not at all, and of each party
there is one share for it.

The paper sends r_uv as a vector. Here r_uv is the AES-256-CTR stream of a key that u draws for v
and sends encrypted, so that a contribution is small, and the vectors travel once, in phase ``add``.
"""
