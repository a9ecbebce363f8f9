#include "config.h"
#include "diagnose_snapshot.h"

#include <stdio.h>
#include <string.h>

mrail_calls_t calls[MAX_RANKS], earlier[MAX_RANKS];
diagnose_rank_t ranks[MAX_RANKS];
diagnose_snapshot_t snapshot;
diagnose_report_t report;

int set_up(void **state)
{
    memset(calls, 0, sizeof(calls));
    memset(earlier, 0, sizeof(earlier));
    memset(ranks, 0, sizeof(ranks));
    snapshot = (diagnose_snapshot_t){.ranks = ranks,
                                     .num_ranks = RANKS,
                                     .now_ns = NOW,
                                     .sample_ns = 700 * MS,
                                     .patience_ns = 2000 * MS};
    for (unsigned i = 0; i < RANKS; ++i) {
        for (unsigned k = 0; k < 2; ++k) {
            mrail_calls_comm_t *comm = &calls[i].comms[k];

            comm->id = (k == 0) ? WORLD : SECOND;
            comm->size = RANKS;
            comm->rank = i;
        }
        ranks[i] = (diagnose_rank_t){.rank = (int)i,
                                     .pid = 100 + i,
                                     .alive = 1,
                                     .state = 'R',
                                     .run = 0.9,
                                     .delay = 0.05,
                                     .last_ns = NOW,
                                     .calls = &calls[i],
                                     .id = 500 + i,
                                     .num_rails = 4};
        for (unsigned k = 0; k < 4; ++k) {
            diagnose_rail_t *rail = &ranks[i].rails[k];

            snprintf(rail->name, sizeof(rail->name), "nic%u:1", k);
            rail->nominal = 1000000000;
            rail->traffic.bytes = 100 << 20;
            rail->traffic.busy_ns = 200 * MS;
            rail->traffic.chunks = 400;
        }
    }
    return 0;
}

mrail_calls_comm_t *comm_of(unsigned rank, unsigned index)
{
    return &calls[rank].comms[index];
}

void add(mrail_calls_comm_t *comm, uint32_t kind, int root, uint64_t entered_ns,
         uint64_t left_ns)
{
    comm->records[comm->entered % MRAIL_CALLS_RECORDS] =
        (mrail_calls_record_t){entered_ns, left_ns, kind, root};
    ++comm->entered;
    if (left_ns != 0) {
        comm->left = comm->entered;
        comm->last = left_ns;
    }
    if (comm->entered > MRAIL_CALLS_RECORDS) {
        comm->first = comm->entered - MRAIL_CALLS_RECORDS;
    }
}

void add_all(uint32_t kind, uint64_t entered_ns, uint64_t left_ns)
{
    for (unsigned i = 0; i < RANKS; ++i) {
        add(comm_of(i, 0), kind, -1, entered_ns, left_ns);
    }
}

diagnose_rank_t *add_copy(unsigned rank)
{
    unsigned copy = snapshot.num_ranks++;

    calls[copy] = calls[rank];
    ranks[copy] = ranks[rank];
    ranks[copy].calls = &calls[copy];
    return &ranks[copy];
}

void check(void)
{
    assert_int_equal(diagnose_check(&snapshot, &report), 0);
}

void assert_none(void)
{
    check();
    if (report.num_findings != 0) {
        fail_msg("%s %s: %s", report.findings[0].subject,
                 diagnose_causes[report.findings[0].cause].text,
                 report.findings[0].evidence);
    }
}

void assert_one(diagnose_cause_t cause, const char *subject)
{
    check();
    assert_int_equal(report.num_findings, 1);
    assert_int_equal(report.findings[0].cause, cause);
    assert_string_equal(report.findings[0].subject, subject);
}
