# Documents.  They are installed in the layout of this tree, so that links
# between them hold: README.md in docdir, the others in its folder docs.  This is
# the one list of them; test/ucx/install.sh names a document that is not in it.
nobase_dist_doc_DATA = LICENSE NEWS.md README.md \
    docs/alltoallv.md \
    docs/architecture.md \
    docs/decisions/0001-data-path-guard.md \
    docs/decisions/0002-credits-and-acknowledgements.md \
    docs/decisions/0003-segments-by-time.md \
    docs/decisions/0004-guard-before-the-transport.md \
    docs/decisions/0005-loss-of-a-peer-ends-the-job.md \
    docs/decisions/0006-windows-go-over-ucx.md \
    docs/decisions/0007-an-am-zcopy-is-copied.md \
    docs/decisions/0008-close-before-sending-again.md \
    docs/decisions/0009-a-path-comes-back-by-a-read.md \
    docs/decisions/0010-congestion-with-a-proof.md \
    docs/decisions/0011-plans-are-for-bound-ranks.md \
    docs/decisions/0012-who-reaches-fewer-rails-goes-first.md \
    docs/decisions/0013-small-operations-in-equal-parts.md \
    docs/decisions/0014-what-active-messages-cost.md \
    docs/decisions/0015-few-messages-at-a-time.md \
    docs/decisions/0016-a-plan-is-for-all-or-for-none.md \
    docs/failover.md \
    docs/loading.md \
    docs/planner.md \
    docs/security.md \
    docs/softroce.md \
    docs/telemetry.md \
    docs/testing.md \
    docs/tuning.md \
    docs/wire.md

# automake removes files; the folders that were made for them go, too.
uninstall-hook:
	@for dir in `for doc in $(nobase_dist_doc_DATA); do \
	            dirname "$(docdir)/$$doc"; done | sort -ru` \
	        "$(pkglibdir)/openmpi" "$(pkglibdir)/none" "$(pkglibdir)" \
	        "$(pkglibexecdir)" "$(pkgincludedir)"; do \
	    rmdir "$(DESTDIR)$$dir" 2>/dev/null || :; \
	done
