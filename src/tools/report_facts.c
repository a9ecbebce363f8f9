/* Totals of a report, and its summary. */
#include "config.h"
#include "tools/report.h"

#include "base/util.h"

#include <stdlib.h>
#include <string.h>

/* A rank stands out if it computes longer than the median of all ranks by this
 * fraction of the time. */
#define SLOW 0.1

/* ---- rails ---- */

int report_rail_index(const report_rails_t *rails, const char *name)
{
    for (unsigned i = 0; i < rails->count; ++i) {
        if (strcmp(rails->names[i], name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

report_rails_t report_rail_names(const report_model_t *model)
{
    report_rails_t rails = {.count = 0};

    for (unsigned i = 0; i < model->num_processes; ++i) {
        const report_process_t *process = model->processes[i];

        for (unsigned r = 0; r < process->num_rails; ++r) {
            if ((rails.count < REPORT_RAILS) &&
                (report_rail_index(&rails, process->rails[r].name) < 0)) {
                rails.names[rails.count++] = process->rails[r].name;
            }
        }
    }
    return rails;
}

static void add_rates(const report_model_t *model, report_facts_t *facts)
{
    const report_grid_t *grid = &model->grid;
    double width_s = (double)grid->width_ns / 1e9;
    uint64_t sum = 0;

    for (unsigned i = 0; i < grid->count; ++i) {
        uint64_t bytes = 0;

        for (unsigned k = 0; k < grid->num_series; ++k) {
            bytes += grid->series[k]->bytes[i];
        }
        sum += bytes;
        facts->peak = MRAIL_MAX(facts->peak, (double)bytes / width_s);
    }
    if (grid->count > 0) {
        facts->mean =
            (double)sum * 1e9 / (double)(grid->until_ns - grid->origin_ns);
    }
}

/* ---- ranks ---- */

const report_comm_t *report_comm_of(const report_process_t *process,
                                    uint64_t id)
{
    for (unsigned i = 0; i < process->num_comms; ++i) {
        if (process->comms[i].id == id) {
            return &process->comms[i];
        }
    }
    return NULL;
}

/* Chooses the communicator with the most ranks, and among these the one with
 * the most collectives. */
static uint64_t main_comm(const report_model_t *model)
{
    const report_comm_t *best = NULL;

    for (unsigned i = 0; i < model->num_processes; ++i) {
        for (unsigned k = 0; k < model->processes[i]->num_comms; ++k) {
            const report_comm_t *comm = &model->processes[i]->comms[k];

            if ((best == NULL) || (comm->size > best->size) ||
                ((comm->size == best->size) &&
                 (comm->entered > best->entered))) {
                best = comm;
            }
        }
    }
    return (best != NULL) ? best->id : 0;
}

static int double_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Finds the rank that computes longest, if it computes much longer than the
 * other ranks. Finds none if memory runs out. */
static void find_slowest(const report_model_t *model, report_facts_t *facts)
{
    double *times = calloc(model->num_processes + 1, sizeof(*times));
    double longest_s = 0, total_s = 0;
    unsigned count = 0;

    facts->slowest = -1;
    for (unsigned i = 0; (times != NULL) && (i < model->num_processes); ++i) {
        const report_comm_t *comm =
            report_comm_of(model->processes[i], facts->comm);

        if (comm == NULL) {
            continue;
        }
        times[count] = (double)comm->computed_ns / 1e9;
        if (times[count] > longest_s) {
            longest_s = times[count];
            total_s =
                (double)comm->computed_ns / 1e9 + (double)comm->called_ns / 1e9;
            facts->slowest = (int)i;
        }
        ++count;
    }
    if (count > 1) {
        qsort(times, count, sizeof(*times), double_order);
        facts->computed_s = times[(count - 1) / 2];
        facts->slowest_s = longest_s - facts->computed_s;
    }
    if ((count < 2) || (facts->slowest_s <= SLOW * total_s)) {
        facts->slowest = -1;
    }
    free(times);
}

static void add_process(const report_process_t *process, report_facts_t *facts)
{
    if ((facts->start_ns == 0) || (process->start_ns < facts->start_ns)) {
        facts->start_ns = process->start_ns;
    }
    facts->num_running += process->state == REPORT_RUNNING;
    facts->num_killed += process->state == REPORT_KILLED;
    facts->num_lost += process->state == REPORT_LOST;
    for (unsigned i = 0; i < process->num_rails; ++i) {
        facts->bytes += process->rails[i].bytes;
        facts->before += process->rails[i].before;
    }
    for (unsigned i = 0; i < process->num_counters; ++i) {
        if (strcmp(process->counters[i].name, "lanes_failed") == 0) {
            facts->failovers += process->counters[i].value;
        }
    }
}

report_facts_t report_facts(const report_model_t *model)
{
    report_facts_t facts = {.num_rails = report_rail_names(model).count};

    for (unsigned i = 0; i < model->num_processes; ++i) {
        add_process(model->processes[i], &facts);
    }
    add_rates(model, &facts);
    facts.comm = main_comm(model);
    find_slowest(model, &facts);
    return facts;
}

/* ---- the summary ---- */

/* Writes bytes, or a rate, with three digits and a decimal unit. */
static void amount(FILE *stream, double bytes, const char *per)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    unsigned i = 0;

    while ((bytes >= 999.5) && (i + 1 < MRAIL_ARRAY_SIZE(units))) {
        bytes /= 1e3;
        ++i;
    }
    fprintf(stream, "%.*f %s%s",
            ((i == 0) || (bytes >= 99.95)) ? 0
            : (bytes >= 9.995)             ? 1
                                           : 2,
            bytes, units[i], per);
}

static void count_of(FILE *stream, uint64_t count, const char *one,
                     const char *many)
{
    fprintf(stream, "%llu %s", (unsigned long long)count,
            (count == 1) ? one : many);
}

/* A list of texts, of which the first ones are named. */
typedef struct names {
    char text[256];
    unsigned count;
} names_t;

#define NAMES 6u

static void add_name(names_t *names, const char *name)
{
    size_t used = strlen(names->text);

    if (names->count++ < NAMES) {
        snprintf(names->text + used, sizeof(names->text) - used, "%s%s",
                 (used == 0) ? "" : ", ", name);
    }
}

/* Ends the list with the number of names that were left out. */
static void end_names(names_t *names)
{
    size_t used = strlen(names->text);

    if (names->count > NAMES) {
        snprintf(names->text + used, sizeof(names->text) - used,
                 " and %u others", names->count - NAMES);
    }
}

/* Returns 1 if an event says that the port of a rail has an error. */
static int is_port_error(const report_event_t *event)
{
    return (event->kind == REPORT_PORT) && (event->rail >= 0) &&
           !event->is_recovery && (strstr(event->text, "error") != NULL);
}

/* Returns 1 if an earlier event is about the same port of the same host. */
static int is_repeated(const report_model_t *model, unsigned index)
{
    const report_event_t *event = &model->events[index];
    const char *name = event->process->rails[event->rail].name;

    for (unsigned i = 0; i < index; ++i) {
        const report_event_t *other = &model->events[i];

        if (is_port_error(other) &&
            (other->process->host == event->process->host) &&
            (strcmp(other->process->rails[other->rail].name, name) == 0)) {
            return 1;
        }
    }
    return 0;
}

/* Names the ports that reported an error at some time. */
static names_t rails_down(const report_model_t *model)
{
    int has_hosts = (model->archive != NULL) && (model->archive->num_hosts > 1);
    names_t names = {.count = 0};

    for (unsigned i = 0; i < model->num_events; ++i) {
        const report_event_t *event = &model->events[i];
        const char *host = report_host_of(model, event->process);
        char name[128];

        if (is_port_error(event) && !is_repeated(model, i)) {
            snprintf(name, sizeof(name), "%s%s%.70s",
                     event->process->rails[event->rail].name,
                     (has_hosts && (host != NULL)) ? " of " : "",
                     (has_hosts && (host != NULL)) ? host : "");
            add_name(&names, name);
        }
    }
    end_names(&names);
    return names;
}

static void summarise_faults(FILE *stream, const report_model_t *model,
                             const report_facts_t *facts)
{
    names_t down = rails_down(model);

    if ((down.count == 0) && (facts->failovers == 0)) {
        fputs(" No port reported an error, and no lane failed.", stream);
        return;
    }
    if (down.count > 0) {
        fprintf(stream, " Port%s %s reported an error.",
                (down.count == 1) ? "" : "s", down.text);
    }
    if (facts->failovers > 0) {
        fputc(' ', stream);
        count_of(stream, facts->failovers, "lane failed.", "lanes failed.");
    }
}

static void summarise_ranks(FILE *stream, const report_model_t *model,
                            const report_facts_t *facts)
{
    if (facts->num_killed > 0) {
        fputc(' ', stream);
        count_of(stream, facts->num_killed, "process was killed.",
                 "processes were killed.");
    }
    if (facts->slowest >= 0) {
        fprintf(stream,
                " Rank %d delays the other ranks: it spent %.1f s more outside "
                "collectives than the median rank.",
                model->processes[facts->slowest]->rank, facts->slowest_s);
    }
}

static void name_missing(FILE *stream, const report_archive_t *archive)
{
    names_t names = {.count = 0};

    for (unsigned i = 0; i < archive->num_hosts; ++i) {
        if (archive->hosts[i].error != NULL) {
            add_name(&names, archive->hosts[i].name);
        }
    }
    end_names(&names);
    if (names.count > 0) {
        fprintf(stream, " %u of %u hosts %s missing: %s.", names.count,
                archive->num_hosts, (names.count == 1) ? "is" : "are",
                names.text);
    }
}

/* States what is missing, and how accurate the times are. */
static void summarise_archive(FILE *stream, const report_archive_t *archive)
{
    name_missing(stream, archive);
    if (archive->left_out > 0) {
        fputc(' ', stream);
        count_of(stream, archive->left_out, "process was", "processes were");
        fputs(" left out, because the archive was full.", stream);
    }
    if (archive->lost_files > 0) {
        fputs(" The archive was truncated or damaged, and ", stream);
        count_of(stream, archive->lost_files, "file is", "files are");
        fputs(" missing.", stream);
    }
    if (archive->num_hosts > 1) {
        fprintf(stream, " Times of the hosts are aligned to within %.3f ms.",
                (double)archive->bound_ns / 1e6);
    }
}

void report_summary(FILE *stream, const report_model_t *model,
                    const report_facts_t *facts)
{
    const report_grid_t *grid = &model->grid;

    count_of(stream, model->num_processes, "process", "processes");
    fputs(" carried ", stream);
    amount(stream, (double)facts->bytes, "");
    fputs(" over ", stream);
    count_of(stream, facts->num_rails, "rail", "rails");
    if ((grid->count > 0) && (facts->mean > 0)) {
        fputs(", at ", stream);
        amount(stream, facts->mean, "/s");
        fprintf(stream, " on average during the %s %.1f s",
                ((model->end == REPORT_NOT_LIVE) ||
                 (model->end == REPORT_OF_ARCHIVE))
                    ? "last"
                    : "recorded",
                (double)(grid->until_ns - grid->origin_ns) / 1e9);
    }
    fputc('.', stream);
    summarise_faults(stream, model, facts);
    summarise_ranks(stream, model, facts);
    if (model->archive != NULL) {
        summarise_archive(stream, model->archive);
    }
}
