#include "config.h"
#include "plan_lp.h"

#include <glpk.h>

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

/* If the bounds of a range differ by more than this fraction, exact arithmetic
 * is used. */
#define NEAR_ENOUGH 1e-6
/* With more columns than this, exact arithmetic would take too long and is not
 * used. */
#define MAX_EXACT 1500

static void *get(size_t num, size_t size)
{
    void *p = calloc(num ? num : 1, size);

    if (p == NULL) {
        printf("not ok - plan: no memory for the reference check\n");
        fflush(stdout);
        _Exit(1);
    }
    return p;
}

/* Adds a demand, merged into the existing flow with the same endpoints and
 * paths, if any. Returns 0 if there are too many columns. */
static int lp_add(lp_problem_t *p, const mrail_plan_demand_t *d,
                  unsigned *flow_of, unsigned max_columns)
{
    const machine_t *w = p->machine;
    path_t *paths = &p->path[p->num_columns];
    int count = paths_of(w, d, paths);
    unsigned *flow = &flow_of[2 * ((size_t)d->from * w->num_ranks + d->to) +
                              (d->bytes > paths_relay_threshold(w))];

    if (count == PATHS_NOT_PLANNED) {
        return 1;
    }
    if (*flow == 0) {
        p->num_columns += (unsigned)count;
        *flow = ++p->num_flows;
        p->first[p->num_flows] = p->num_columns;
    }
    p->bytes[*flow - 1] += (double)d->bytes;
    return p->num_columns <= max_columns;
}

lp_problem_t *lp_create(const machine_t *w, unsigned max_columns)
{
    lp_problem_t *p = get(1, sizeof(*p));
    unsigned *flow_of =
        get(2 * (size_t)w->num_ranks * w->num_ranks, sizeof(*flow_of));
    int fits = 1;

    p->machine = w;
    p->bytes = get(w->num_demands, sizeof(*p->bytes));
    p->first = get(w->num_demands + 1, sizeof(*p->first));
    p->path = get(max_columns + PATHS_MAX, sizeof(*p->path));
    for (unsigned i = 0; fits && (i < w->num_demands); ++i) {
        fits = lp_add(p, &w->demands[i], flow_of, max_columns);
    }
    free(flow_of);
    if (!fits) {
        lp_destroy(p);
        p = NULL;
    }
    return p;
}

void lp_destroy(lp_problem_t *p)
{
    if (p != NULL) {
        free(p->bytes);
        free(p->first);
        free(p->path);
        free(p);
    }
}

/* ---- splits: the fraction of its demand on each path ---- */

/* Returns the time that a link's background takes, in seconds. */
static double base_of(const lp_problem_t *p, uint32_t e)
{
    const double *background = p->machine->background;

    return (background != NULL && background[e] > 0)
               ? background[e] / paths_capacity(p->machine, e)
               : 0;
}

static double congestion_of_base(const lp_problem_t *p)
{
    double most = 0;

    for (uint32_t e = 0; e < paths_num_links(p->machine); ++e) {
        most = MRAIL_MAX(most, base_of(p, e));
    }
    return most;
}

static double congestion_of(const lp_problem_t *p, const double *part)
{
    double *load = get(paths_num_links(p->machine), sizeof(*load));
    double most = congestion_of_base(p);

    for (uint32_t e = 0; e < paths_num_links(p->machine); ++e) {
        load[e] = base_of(p, e);
    }
    for (unsigned k = 0; k < p->num_flows; ++k) {
        for (unsigned j = p->first[k]; j < p->first[k + 1]; ++j) {
            for (unsigned i = 0; i < p->path[j].num_links; ++i) {
                uint32_t e = p->path[j].link[i];

                load[e] +=
                    p->bytes[k] * part[j] / paths_capacity(p->machine, e);
                most = MRAIL_MAX(most, load[e]);
            }
        }
    }
    free(load);
    return most;
}

static double relayed_by(const lp_problem_t *p, const double *part)
{
    double sum = 0;

    for (unsigned k = 0; k < p->num_flows; ++k) {
        for (unsigned j = p->first[k]; j < p->first[k + 1]; ++j) {
            sum += p->bytes[k] * part[j] * p->path[j].num_relays;
        }
    }
    return sum;
}

static void make_add_up(const lp_problem_t *p, double *part)
{
    for (unsigned k = 0; k < p->num_flows; ++k) {
        unsigned count = p->first[k + 1] - p->first[k];
        double sum = 0;

        for (unsigned j = p->first[k]; j < p->first[k + 1]; ++j) {
            part[j] = MRAIL_MAX(part[j], 0);
            sum += part[j];
        }
        for (unsigned j = p->first[k]; j < p->first[k + 1]; ++j) {
            part[j] = (sum > 0) ? part[j] / sum : 1.0 / count;
        }
    }
}

static double *equal_division(const lp_problem_t *p)
{
    double *part = get(p->num_columns, sizeof(*part));

    make_add_up(p, part);
    return part;
}

/* ---- lower bounds, for any dual prices ---- */

/* Returns the sum over all demands of the bytes times the length of the
 * shortest path, plus the background times the lengths of its links. The length
 * of a path is its number of relays times `relay`, plus, for each of its links,
 * the price divided by the capacity. */
static double shortest(const lp_problem_t *p, double relay,
                       const double *dual_price)
{
    double sum = 0;

    for (uint32_t e = 0; e < paths_num_links(p->machine); ++e) {
        sum += base_of(p, e) * dual_price[e];
    }
    for (unsigned k = 0; k < p->num_flows; ++k) {
        double least = DBL_MAX;

        for (unsigned j = p->first[k]; j < p->first[k + 1]; ++j) {
            double length = relay * p->path[j].num_relays;

            for (unsigned i = 0; i < p->path[j].num_links; ++i) {
                uint32_t e = p->path[j].link[i];

                length += dual_price[e] / paths_capacity(p->machine, e);
            }
            least = MRAIL_MIN(least, length);
        }
        sum += p->bytes[k] * least;
    }
    return sum;
}

static double sum_of(const double *dual_price, unsigned count)
{
    double sum = 0;

    for (unsigned i = 0; i < count; ++i) {
        sum += dual_price[i];
    }
    return sum;
}

/* ---- GLPK ---- */

/* A linear program. Its first rows, one per demand, require that the fractions
 * of the demand add up to 1. The other rows, one per used link, give the link's
 * load in units of `unit` seconds. */
typedef struct program {
    glp_prob *glp;
    int *row; /* row of each link; 0 if unused */
    int *index;
    double *value;
} program_t;

static void add_column(program_t *g, const lp_problem_t *p, unsigned k,
                       unsigned j, double unit)
{
    int count = 1, column = glp_add_cols(g->glp, 1);

    g->index[count] = (int)k + 1;
    g->value[count++] = 1;
    for (unsigned i = 0; i < p->path[j].num_links; ++i) {
        uint32_t e = p->path[j].link[i];

        if (g->row[e] == 0) {
            g->row[e] = glp_add_rows(g->glp, 1);
        }
        g->index[count] = g->row[e];
        g->value[count++] = p->bytes[k] / paths_capacity(p->machine, e) / unit;
    }
    glp_set_mat_col(g->glp, column, count - 1, g->index, g->value);
    glp_set_col_bnds(g->glp, column, GLP_LO, 0, 0);
}

static program_t open_program(const lp_problem_t *p, double unit)
{
    program_t g = {.glp = glp_create_prob()};

    g.row = get(paths_num_links(p->machine), sizeof(*g.row));
    g.index = get(paths_num_links(p->machine) + 8, sizeof(*g.index));
    g.value = get(paths_num_links(p->machine) + 8, sizeof(*g.value));
    glp_set_obj_dir(g.glp, GLP_MIN);
    glp_add_rows(g.glp, (int)p->num_flows);
    for (unsigned k = 0; k < p->num_flows; ++k) {
        glp_set_row_bnds(g.glp, (int)k + 1, GLP_FX, 1, 1);
        for (unsigned j = p->first[k]; j < p->first[k + 1]; ++j) {
            add_column(&g, p, k, j, unit);
        }
    }
    return g;
}

static void close_program(program_t *g)
{
    glp_delete_prob(g->glp);
    free(g->row);
    free(g->index);
    free(g->value);
}

static void solve(program_t *g, int exact)
{
    glp_smcp parm;

    glp_term_out(GLP_OFF);
    glp_init_smcp(&parm);
    parm.presolve = GLP_OFF;
    parm.tol_bnd = parm.tol_dj = 1e-9;
    parm.tm_lim = 60000;
    if (exact) {
        (void)glp_exact(g->glp, &parm);
        return;
    }
    glp_scale_prob(g->glp, GLP_SF_GM | GLP_SF_EQ | GLP_SF_2N);
    glp_adv_basis(g->glp, 0);
    (void)glp_simplex(g->glp, &parm);
}

/* Reads the solution: the fractions, and the dual values of the links. */
static void read_program(const program_t *g, const lp_problem_t *p,
                         double *part, double *dual_price)
{
    for (unsigned j = 0; j < p->num_columns; ++j) {
        part[j] = glp_get_col_prim(g->glp, (int)j + 1);
    }
    make_add_up(p, part);
    for (unsigned e = 0; e < paths_num_links(p->machine); ++e) {
        double dual =
            (g->row[e] != 0) ? -glp_get_row_dual(g->glp, g->row[e]) : 0;

        dual_price[e] = MRAIL_MAX(dual, 0);
    }
}

static int is_wide(const lp_range_t *range, double unit)
{
    return range->most - range->least > NEAR_ENOUGH * unit;
}

/* ---- the two programs ---- */

/* Returns the best split that was found. The caller frees it. */
static double *spread(const lp_problem_t *p, lp_range_t *range)
{
    unsigned num_links = paths_num_links(p->machine);
    double *part = equal_division(p);
    double *dual_price = get(num_links, sizeof(*dual_price));
    double unit = congestion_of(p, part);
    program_t g = open_program(p, unit);
    int column = glp_add_cols(g.glp, 1), count = 0;

    glp_set_col_bnds(g.glp, column, GLP_LO, congestion_of_base(p) / unit, 0);
    glp_set_obj_coef(g.glp, column, 1);
    for (unsigned e = 0; e < num_links; ++e) {
        if (g.row[e] != 0) {
            glp_set_row_bnds(g.glp, g.row[e], GLP_UP, 0, -base_of(p, e) / unit);
            g.index[++count] = g.row[e];
            g.value[count] = -1;
        }
    }
    glp_set_mat_col(g.glp, column, count, g.index, g.value);
    for (int exact = 0; exact < 2; ++exact) {
        double sum;

        solve(&g, exact);
        read_program(&g, p, part, dual_price);
        sum = sum_of(dual_price, num_links);
        range->exact = exact;
        range->most = congestion_of(p, part);
        range->least = (sum > 0) ? shortest(p, 0, dual_price) / sum : 0;
        range->least = MRAIL_MAX(range->least, congestion_of_base(p));
        if (!is_wide(range, range->most) || (p->num_columns > MAX_EXACT)) {
            break;
        }
    }
    close_program(&g);
    free(dual_price);
    return part;
}

lp_range_t lp_congestion(const lp_problem_t *p)
{
    lp_range_t range = {0};

    if (p->num_columns > 0) {
        free(spread(p, &range));
    }
    return range;
}

/* Mixes just enough of `spare` into `part` to bring it within the limit.
 * `spare` must be within the limit. */
static void keep_within(const lp_problem_t *p, double *part,
                        const double *spare, double limit)
{
    double is = congestion_of(p, part), of_spare = congestion_of(p, spare);
    double mix = (is > limit) ? (is - limit) / (is - of_spare) : 0;

    for (unsigned j = 0; j < p->num_columns; ++j) {
        part[j] += mix * (spare[j] - part[j]);
    }
}

lp_range_t lp_relayed(const lp_problem_t *p, double limit)
{
    unsigned num_links = paths_num_links(p->machine);
    lp_range_t range = {0}, ignored;
    double total = 0, *part, *dual_price, *spare;
    program_t g;

    if (p->num_columns == 0) {
        return range;
    }
    for (unsigned k = 0; k < p->num_flows; ++k) {
        total += p->bytes[k];
    }
    part = get(p->num_columns, sizeof(*part));
    dual_price = get(num_links, sizeof(*dual_price));
    spare = spread(p, &ignored);
    g = open_program(p, limit);
    for (unsigned e = 0; e < num_links; ++e) {
        if (g.row[e] != 0) {
            glp_set_row_bnds(g.glp, g.row[e], GLP_UP, 0,
                             1 - base_of(p, e) / limit);
        }
    }
    for (unsigned k = 0; k < p->num_flows; ++k) {
        for (unsigned j = p->first[k]; j < p->first[k + 1]; ++j) {
            glp_set_obj_coef(g.glp, (int)j + 1,
                             p->bytes[k] / total * p->path[j].num_relays);
        }
    }
    for (int exact = 0; exact < 2; ++exact) {
        solve(&g, exact);
        read_program(&g, p, part, dual_price);
        keep_within(p, part, spare, limit);
        range.exact = exact;
        range.most = relayed_by(p, part);
        for (unsigned e = 0; e < num_links; ++e) {
            dual_price[e] *= total / limit;
        }
        range.least =
            shortest(p, 1, dual_price) - limit * sum_of(dual_price, num_links);
        range.least = MRAIL_MAX(range.least, 0);
        if (!is_wide(&range, total) || (p->num_columns > MAX_EXACT)) {
            break;
        }
    }
    close_program(&g);
    free(part);
    free(dual_price);
    free(spare);
    return range;
}
