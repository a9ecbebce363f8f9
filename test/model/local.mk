# Protocols as models, checked exhaustively.
EXTRA_DIST += test/model/failover.sh test/model/failover.pml
TESTS += test/model/failover.sh
