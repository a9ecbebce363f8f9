# Models of the protocols, which spin checks exhaustively.
EXTRA_DIST += test/model/lib.sh test/model/failover.sh test/model/failover.pml \
    test/model/relay.sh test/model/relay.pml
TESTS += test/model/failover.sh test/model/relay.sh
