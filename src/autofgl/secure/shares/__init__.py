"""Masked sums: the parties' vectors are integers modulo 2**64 that look random to the server.

**shares**: t of n, survives lost parties. After Bonawitz et al., "Practical secure aggregation for
privacy-preserving machine learning", CCS 2017. In the sum of one tag, party u holds the integers
x_u and sends, modulo 2**64::

    y_u = x_u + PRG(b_u) + sum over v > u of PRG(s_uv) - sum over v < u of PRG(s_uv)

The pairwise masks s_uv, which u and v derive from their common secret and the tag, cancel in the
sum. The self masks b_u do not: u also sends a t-of-n sharing of b_u, one encrypted share for each
peer. To open the sum the server asks in two phases:

- ``settle``, only if a party v did not contribute: the contributors tell s_uv, for this tag. One
  that does not answer counts as lost as well, and the others are asked for its masks, until no
  more are lost.
- ``unmask``: the parties tell their shares of the contributors' b_u. Any t of them are enough.

We differ from the paper in what happens to a lost party v. There its private key is rebuilt, so
that keys serve for one sum only. Here each contributor tells its own mask with v, so that keys
live on, and ``settle`` may need more than one round.

A party never tells both its mask with a peer and its share of that peer's self mask. So even a
server that lies about who is lost either has fewer than t shares of b_u or lacks the s_uv of an
honest party v, as long as fewer than t - 1 parties collude with it.

**shares-additive**: n of n, as in the ASFGNN paper. Party u splits its integers into one share for
every party::

    x_u = r_uu + sum over v of r_uv

Party v adds up the shares that it was given, and the server adds these n sums. Each r_uv looks
random; only all of them together say something. If one party is lost, the sum is lost.

The paper sends r_uv as a vector. Here r_uv is the ChaCha20 stream of a key that u draws for v and
sends encrypted, so that a contribution is small, and the vectors travel once, in phase ``add``.
"""
