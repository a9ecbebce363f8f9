/* Forecasts of coll/mrail, which it prints with coll_mrail_verbose 3:
 *
 *   mrail: coll: COMM: LINK: 3.1 MB by the plan, 9.2 MB without it, at 100.0 MB/s
 *
 * Of each link of a communicator, the last forecast counts. */
#include "config.h"
#include "tools/report.h"

#include "base/grow.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>

#define PREFIX "mrail: coll: "

/* Returns the entry of a link, a new one if necessary, or NULL. */
static report_link_t *link_entry(report_model_t *model,
                                 const report_link_t *link)
{
    for (unsigned i = 0; i < model->num_links; ++i) {
        if ((strcmp(model->links[i].comm, link->comm) == 0) &&
            (strcmp(model->links[i].name, link->name) == 0)) {
            return &model->links[i];
        }
    }
    if ((model->num_links == REPORT_LINKS) ||
        !mrail_grow(&model->links, model->num_links + 1,
                    sizeof(*model->links))) {
        return NULL;
    }
    return &model->links[model->num_links++];
}

/* Copies a text, cut to the room. */
static void copy(char *to, size_t size, const char *from, const char *end)
{
    snprintf(to, size, "%.*s", (int)MRAIL_MIN(end - from, 255), from);
}

/* Splits "COMM: LINK: VALUES". The name of a communicator may contain ": ". */
static int split(const char *text, report_link_t *link)
{
    const char *values = strstr(text, " MB by the plan, ");
    const char *name, *p;

    if (values == NULL) {
        return 0;
    }
    while ((values > text) && (strncmp(values, ": ", 2) != 0)) {
        --values;
    }
    for (name = values, p = text; (p = strstr(p, ": ")) != NULL && p < values;
         ++p) {
        name = p;
    }
    if (name == values) {
        return 0;
    }
    copy(link->comm, sizeof(link->comm), text, name);
    copy(link->name, sizeof(link->name), name + 2, values);
    return sscanf(values,
                  ": %lf MB by the plan, %lf MB without it, at %lf MB/s",
                  &link->planned, &link->unplanned, &link->capacity) == 3;
}

int report_plan_line(report_model_t *model, const char *line)
{
    const char *text = strstr(line, PREFIX);
    report_link_t link, *entry;

    if ((text == NULL) || !split(text + strlen(PREFIX), &link)) {
        return 0;
    }
    link.planned *= 1e6;
    link.unplanned *= 1e6;
    link.capacity *= 1e6;
    entry = link_entry(model, &link);
    if (entry == NULL) {
        return -ENOMEM;
    }
    *entry = link;
    return 1;
}
