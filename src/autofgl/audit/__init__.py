"""What a run gives away: attacks on its messages, and what each of them got.

==============  ====================================================================================
transcript      a short run of the same settings, with every message as its receivers see it
attacks         an honest server and a curious peer, who only look at what they receive: sums of one
                client, differences of sums, label counts, features in gradients, membership
rows            a curious peer of FedGraph, who rebuilds features from the rows of boundary nodes
probes          a server that cheats: asks for what it should not get, and sees who refuses
verdict         one line for each attack, and all of them as a table or as JSON
==============  ====================================================================================

The attacker never sees more than its role does. What is true, such as a client's own vector, is
recorded as well, only to say how near an attack came.
"""
