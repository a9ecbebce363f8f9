# Documents.  They are installed in the layout of this tree, so that links
# between them hold: README.md in docdir, the others in its directory docs.
# This is the one list of them; test/ucx/install.sh names a document that is not
# in it.
nobase_dist_doc_DATA = LICENSE NEWS.md README.md SECURITY.md \
    docs/alltoallv.md \
    docs/architecture.md \
    docs/benchmarks.md \
    docs/configuration.md \
    docs/contributing.md \
    docs/decisions/0001-data-path-lock.md \
    docs/decisions/0002-credits-and-acknowledgements.md \
    docs/decisions/0003-chunk-and-window-sizes.md \
    docs/decisions/0004-version-shim.md \
    docs/decisions/0005-loss-of-a-peer-ends-the-job.md \
    docs/decisions/0006-one-sided-windows-over-ucx.md \
    docs/decisions/0007-am-zcopy-copies.md \
    docs/decisions/0008-close-before-replay.md \
    docs/decisions/0009-path-validation-by-read.md \
    docs/decisions/0010-congestion-with-a-proof.md \
    docs/decisions/0011-plans-are-for-single-rail-ranks.md \
    docs/decisions/0012-fair-share-of-rails.md \
    docs/decisions/0013-equal-split-of-small-operations.md \
    docs/decisions/0014-active-message-cost.md \
    docs/decisions/0015-pairwise-steps.md \
    docs/decisions/0016-a-plan-is-for-all-ranks-or-none.md \
    docs/decisions/0017-flush-and-busy-peers.md \
    docs/decisions/0018-crc-by-isa-l.md \
    docs/decisions/0019-json-is-written-as-a-stream.md \
    docs/decisions/0020-ports-by-evidence.md \
    docs/decisions/0021-spraying-over-known-paths.md \
    docs/decisions/0022-cancel-waits-for-the-devices.md \
    docs/decisions/0023-leased-credits.md \
    docs/decisions/0024-length-of-fragments.md \
    docs/decisions/0025-xrc-and-dc.md \
    docs/decisions/0026-a-ring-for-records.md \
    docs/decisions/0027-nothing-visits-idle-peers.md \
    docs/decisions/0028-small-puts-complete-by-position.md \
    docs/decisions/0029-two-levels-stay.md \
    docs/decisions/0030-sparse-agreement-records.md \
    docs/decisions/0031-direct-messages-are-reads.md \
    docs/decisions/0032-plans-where-they-can-gain.md \
    docs/decisions/0033-order-in-time.md \
    docs/decisions/0034-a-plan-pays-for-its-making.md \
    docs/decisions/0035-calls-are-counted-by-coll.md \
    docs/decisions/0037-device-memory-in-collectives.md \
    docs/decisions/0038-ethereal-below-cores.md \
    docs/decisions/0040-streams-wait-for-values.md \
    docs/decisions/0041-relays-in-device-memory.md \
    docs/decisions/0043-no-two-levels.md \
    docs/decisions/0044-relayed-chunks-share-a-quota.md \
    docs/decisions/0047-traces-are-protobuf.md \
    docs/decisions/0048-archives-are-unpacked.md \
    docs/decisions/0050-the-report-draws-itself.md \
    docs/decisions/0051-relays-with-a-kernel.md \
    docs/decisions/0052-exchanges-besides-alltoallv.md \
    docs/deployment.md \
    docs/fabric.md \
    docs/failover.md \
    docs/getting-started.md \
    docs/glossary.md \
    docs/gpu.md \
    docs/images/failover.svg \
    docs/images/parts.svg \
    docs/images/paths.svg \
    docs/images/results.svg \
    docs/images/window.svg \
    docs/loading.md \
    docs/metrics.md \
    docs/operations.md \
    docs/planner.md \
    docs/references.md \
    docs/results/alltoallv.md \
    docs/results/data/README.md \
    docs/results/data/alltoallv.json \
    docs/results/data/failover.json \
    docs/results/data/orchestrator.json \
    docs/results/data/overhead.json \
    docs/results/data/p2p.json \
    docs/results/data/paths.json \
    docs/results/data/planner.json \
    docs/results/data/readme-alltoallv.json \
    docs/results/data/scale.json \
    docs/results/data/softroce.json \
    docs/results/data/versions.json \
    docs/results/data/vm.json \
    docs/results/data/window-series.json \
    docs/results/data/window.json \
    docs/results/failover.md \
    docs/results/orchestrator.md \
    docs/results/overhead.md \
    docs/results/p2p.md \
    docs/results/paths.md \
    docs/results/planner.md \
    docs/results/scale.md \
    docs/results/softroce.md \
    docs/results/testing.md \
    docs/results/tuning.md \
    docs/results/vm.md \
    docs/results/window.md \
    docs/security.md \
    docs/softgpu.md \
    docs/softroce.md \
    docs/telemetry.md \
    docs/testing.md \
    docs/troubleshooting.md \
    docs/tuning.md \
    docs/versions.md \
    docs/wire.md

# automake removes files; the hook also removes the directories that were made
# for them.
uninstall-hook:
	@for dir in `for doc in $(nobase_dist_doc_DATA); do \
	            dirname "$(docdir)/$$doc"; done | sort -ru` \
	        "$(pkglibdir)/openmpi" "$(pkglibdir)/none" \
	        "$(pkglibdir)/softgpu" "$(pkglibdir)" \
	        "$(exporterdir)" "$(docdir)/examples" "$(docdir)" \
	        "$(pkglibexecdir)" "$(pkgincludedir)" "$(fabricdir)" \
	        "$(pkgdatadir)"; do \
	    rmdir "$(DESTDIR)$$dir" 2>/dev/null || :; \
	done
