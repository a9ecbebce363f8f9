/* The statements of a report about a mrail collect archive. */
#include "config.h"
#include "tools/report_files.h"

#include "base/util.h"
#include "tools/collect.h"

uint64_t report_archive_time(const collect_view_t *view)
{
    uint64_t time_ns = view->manifest.time_ns;

    for (unsigned i = 0; i < view->manifest.num_hosts; ++i) {
        if (view->hosts[i].error == NULL) {
            time_ns = MRAIL_MAX(time_ns, collect_view_time(view, (int)i));
        }
    }
    return time_ns;
}

static void add_host(report_model_t *model, report_archive_t *archive,
                     const collect_host_t *host)
{
    archive->num_missing += host->error[0] != '\0';
    archive->left_out += host->left_out;
    model->files_refused += host->refused;
}

void report_take_archive(report_files_t *files, report_archive_t *archive)
{
    const collect_view_t *view = files->view;
    report_model_t *model = files->model;

    *archive = (report_archive_t){.time_ns = view->manifest.time_ns,
                                  .bound_ns = collect_bound_ns(&view->manifest),
                                  .hosts = view->hosts,
                                  .num_hosts = view->manifest.num_hosts,
                                  .lost_files = view->lost_files};
    for (unsigned i = 0; i < archive->num_hosts; ++i) {
        add_host(model, archive, &view->manifest.hosts[i]);
    }
    if (archive->num_hosts == 1) {
        snprintf(model->host, sizeof(model->host), "%.60s",
                 archive->hosts[0].name);
    } else if (archive->num_missing == 0) {
        snprintf(model->host, sizeof(model->host), "%u hosts",
                 archive->num_hosts);
    } else {
        snprintf(model->host, sizeof(model->host), "%u of %u hosts",
                 archive->num_hosts - archive->num_missing, archive->num_hosts);
    }
    model->archive = archive;
}
