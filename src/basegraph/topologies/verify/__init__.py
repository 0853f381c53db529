"""The proof that a sequence is what it claims to be, without floating point.

`verify` checks every round by itself (`check_rounds`: weights positive, doubly stochastic,
symmetric and of low degree where claimed), then that the period's product W_m ... W_1 is J/n: in
integers, without any doubt (`exact`), or modulo random primes with an error below 2^-60
(`modular`). The `Certificate` says what was shown and how.

Example:
    >>> from basegraph.topologies.paper import base
    >>> print(verify(base(25)))
    base:k=1, n=25: 9 rounds of degree ≤ 1 multiply to J/n (exact integer product)

"""

from basegraph.topologies.verify.certificate import Certificate, verify
from basegraph.topologies.verify.own import require_rounds
from basegraph.topologies.verify.rounds import check_rounds

__all__ = ["Certificate", "check_rounds", "require_rounds", "verify"]
