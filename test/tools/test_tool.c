/* Tests src/tools/tool.c (paths of the installation) and
 * src/tools/mpirun_cmd.c (the command of `mrail run`). */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/mpirun_cmd.h"
#include "tools/tool.h"

static const char *environment; /* the only variable that is set, or NULL */

static char *fake_getenv(const char *name)
{
    static char value[] = "x";

    return (environment != NULL && strcmp(name, environment) == 0) ? value
                                                                   : NULL;
}

static const char *no_components; /* lists the components of Open MPI 5.0 */

static unsigned num_variables; /* in the last command */

/* Returns the command as one string. */
static char *plan_of(const mrail_run_options_t *options)
{
    const mrail_run_paths_t paths = {"/p/mrail", "/p/rank-rail",
                                     "/p/components", no_components};
    mrail_tool_args_t args = {0};
    char *text = calloc(1, 4096);

    num_variables = mrail_run_plan(options, &paths, fake_getenv, &args);
    for (unsigned i = 0; i < args.count; ++i) {
        strcat(strcat(text, " "), args.items[i]);
    }
    assert_null(args.items[args.count]);
    mrail_tool_args_cleanup(&args);
    return text;
}

#define UCX                                                                    \
    " --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any"           \
    " --mca opal_common_ucx_tls any --mca opal_common_ucx_devices any"
#define ALONE " --mca btl ^openib,uct,ofi,vader,sm --mca osc ^rdma,pt2pt"
#define COMPONENTS                                                             \
    " --mca mca_base_component_path"                                           \
    " SYSTEM_DEFAULT:/p/components:USER_DEFAULT"
#define EMULATED " --oversubscribe --bind-to none --mca mpi_yield_when_idle 1"

static void check_plan(const mrail_run_options_t *options, const char *expect)
{
    char *text = plan_of(options);

    assert_string_equal(text, expect);
    free(text);
}

static const char *const app[] = {"app", "-np", "7", NULL};

#define RANK_UCX                                                               \
    " OMPI_MCA_pml=ucx OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any"  \
    " OMPI_MCA_opal_common_ucx_tls=any OMPI_MCA_opal_common_ucx_devices=any"   \
    " OMPI_MCA_mca_base_component_path=SYSTEM_DEFAULT:/p/components:"          \
    "USER_DEFAULT"

/* A rank under srun is given variables instead of mpirun's options. */
static void test_run_as_rank(void **state)
{
    static const char *const user[] = {"-x", "A=1", "--mca", "coll_x", "2"};
    mrail_run_options_t options = {.command = app, .is_rank = 1};

    check_plan(&options, RANK_UCX " UCX_TLS=mrail,self,sm app -np 7");
    options.user = user;
    options.num_user = 5;
    options.nodes = 2;
    options.rails = 4;
    options.session = "s";
    options.devices = "soft0,soft1";
    check_plan(&options,
               " A=1 OMPI_MCA_coll_x=2 OMPI_MCA_mpi_yield_when_idle=1" RANK_UCX
               " UCX_TLS=mrail,self /p/mrail soft --nodes 2 --rails 4"
               " --session s -- /p/rank-rail mrail 2 soft0,soft1 -- app -np 7");
}

/* A path may look like a variable. */
static void test_run_path_with_equals_sign(void **state)
{
    static const char *const path[] = {"lr=0.1/app", NULL};
    static const char *const user[] = {"-x", "A=1"};
    mrail_run_options_t options = {
        .command = path, .is_rank = 1, .user = user, .num_user = 2};

    check_plan(&options, " A=1" RANK_UCX " UCX_TLS=mrail,self,sm lr=0.1/app");
    assert_int_equal(num_variables, 8);
    options.is_rank = 0;
    check_plan(&options, " mpirun" UCX COMPONENTS
                         " -x UCX_TLS=mrail,self,sm -x A=1 lr=0.1/app");
    assert_int_equal(num_variables, 0);
}

static void test_run_not_for_rank(void **state)
{
    static const char *const good[] = {"--mca", "pml", "ob1", "-x", "A=1"};
    static const char *const bad[][2] = {{"--bind-to", "core"},
                                         {"-x", "A"},
                                         {"--hostfile", "f"},
                                         {"--what", ""}};
    mrail_run_options_t options = {.user = good, .num_user = 5};

    assert_null(mrail_run_not_for_rank(&options));
    options.num_user = 2;
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(bad); ++i) {
        options.user = bad[i];
        assert_ptr_equal(mrail_run_not_for_rank(&options), bad[i][0]);
    }
}

static void test_run_on_nics(void **state)
{
    mrail_run_options_t options = {.command = app, .np = 16};

    check_plan(&options, " mpirun -np 16" UCX COMPONENTS
                         " -x UCX_TLS=mrail,self,sm app -np 7");
    options.stock = MRAIL_RUN_STOCK_ALL;
    check_plan(&options, " mpirun -np 16" UCX ALONE
                         " -x UCX_TLS=rc,self,sm -x UCX_RNDV_SCHEME=get_zcopy"
                         " -x UCX_MAX_RNDV_RAILS=4"
                         " -x UCX_MAX_EAGER_RAILS=4 app -np 7");
}

static void test_run_on_software_rails(void **state)
{
    mrail_run_options_t options = {
        .command = app, .nodes = 2, .rails = 3, .rate = "100M", .session = "s"};

    check_plan(&options, " mpirun -np 2" EMULATED UCX COMPONENTS
                         " -x UCX_TLS=mrail,self /p/mrail soft --nodes 2"
                         " --rails 3 --rate 100M --session s -- app -np 7");
    options.devices = "soft0,soft1";
    check_plan(&options, " mpirun -np 2" EMULATED UCX COMPONENTS
                         " -x UCX_TLS=mrail,self /p/mrail soft --nodes 2"
                         " --rails 3 --rate 100M --session s --"
                         " /p/rank-rail mrail 2 soft0,soft1 -- app -np 7");
    options.devices = NULL;
    options.script = "f";
    check_plan(&options, " mpirun -np 2" EMULATED UCX COMPONENTS
                         " -x UCX_TLS=mrail,self /p/mrail soft --nodes 2"
                         " --rails 3 --rate 100M --script f --session s --"
                         " app -np 7");
    options.script = NULL;
    options.stock = MRAIL_RUN_STOCK_ONE;
    check_plan(&options,
               " mpirun -np 2" EMULATED UCX ALONE
               " -x UCX_TLS=rc_v,self -x UCX_RNDV_SCHEME=get_zcopy"
               " -x UCX_RNDV_THRESH=64k"
               " -x UCX_NET_DEVICES=soft0:1"
               " -x UCX_MAX_RNDV_RAILS=1 -x UCX_MAX_EAGER_RAILS=1"
               " /p/mrail soft --nodes 2 --rails 3 --rate 100M --session s"
               " -- app -np 7");
}

/* In Open MPI 5.0, PMIx has its own search path, and processes that the job
 * spawns inherit mpirun's environment. */
static void test_run_on_prrte(void **state)
{
    mrail_run_options_t options = {
        .command = app, .nodes = 2, .rails = 3, .session = "s"};
    char *text;

    no_components = "/p/none";
    check_plan(&options,
               " UCX_TLS=mrail,self mpirun -np 2" EMULATED UCX COMPONENTS
               " --pmixmca mca_base_component_path /p/none -x UCX_TLS"
               " /p/mrail soft --nodes 2 --rails 3 --session s -- app -np 7");
    environment = "UCX_TLS";
    text = plan_of(&options);
    assert_non_null(strstr(text, " mpirun"));
    assert_null(strstr(text, "UCX_TLS="));
    free(text);
    environment = "PMIX_MCA_mca_base_component_path";
    text = plan_of(&options);
    assert_null(strstr(text, "--pmixmca"));
    free(text);
    environment = NULL;
    options.stock = MRAIL_RUN_STOCK_ALL;
    text = plan_of(&options);
    assert_null(strstr(text, "component_path"));
    assert_memory_equal(text, " UCX_TLS=rc_v,self UCX_RNDV_SCHEME=get_zcopy ",
                        45);
    free(text);
    no_components = NULL;
}

static void test_run_leaves_the_users_own(void **state)
{
    const char *user[] = {"--mca",       "pml",       "ob1", "-x",
                          "UCX_TLS=tcp", "--bind-to", "core"};
    mrail_run_options_t options = {.command = app,
                                   .nodes = 1,
                                   .rails = 1,
                                   .session = "s",
                                   .user = user,
                                   .num_user = MRAIL_ARRAY_SIZE(user)};
    char *text = plan_of(&options);

    assert_null(strstr(text, "pml ucx"));
    assert_null(strstr(text, "UCX_TLS=mrail"));
    assert_null(strstr(text, "--bind-to none"));
    assert_non_null(strstr(text, " --mca pml ob1 -x UCX_TLS=tcp --bind-to "
                                 "core /p/mrail soft"));
    free(text);
}

static void test_run_leaves_the_environment(void **state)
{
    mrail_run_options_t options = {.command = app};
    char *text;

    environment = "UCX_TLS";
    text = plan_of(&options);
    assert_non_null(strstr(text, " -x UCX_TLS app"));
    free(text);
    environment = "OMPI_MCA_btl";
    options.stock = MRAIL_RUN_STOCK_ALL;
    text = plan_of(&options);
    assert_null(strstr(text, "--mca btl"));
    assert_non_null(strstr(text, "--mca osc"));
    free(text);
    environment = NULL;
}

/* A key that is a prefix of another key does not match it. */
static void test_run_keys_are_whole(void **state)
{
    const char *user[] = {"--mca", "pml_ucx_verbose", "3", "-x", "UCX_TLS_X=1"};
    mrail_run_options_t options = {
        .command = app, .user = user, .num_user = MRAIL_ARRAY_SIZE(user)};
    char *text = plan_of(&options);

    assert_non_null(strstr(text, "--mca pml ucx"));
    assert_non_null(strstr(text, "UCX_TLS=mrail"));
    free(text);
}

static void check_moved(const char *own, const char *configured,
                        const char *target, const char *want)
{
    char path[64] = "";
    int ret = mrail_tool_moved(own, configured, target, path, sizeof(path));

    if (want == NULL) {
        assert_int_equal(ret, -ENOENT);
        return;
    }
    assert_int_equal(ret, 0);
    assert_string_equal(path, want);
}

static void test_moved_trees(void **state)
{
    check_moved("/new/bin", "/usr/bin", "/usr/lib/mrail/openmpi",
                "/new/lib/mrail/openmpi");
    check_moved("/new/libexec/mrail", "/usr/libexec/mrail",
                "/usr/lib64/mrail/openmpi", "/new/lib64/mrail/openmpi");
    check_moved("/new/libexec/mrail", "/usr/libexec/mrail",
                "/usr/lib/x86_64-linux-gnu/mrail/none",
                "/new/lib/x86_64-linux-gnu/mrail/none");
    check_moved("/stage/usr/libexec/mrail", "/usr/libexec/mrail",
                "/usr/bin/mrail", "/stage/usr/bin/mrail");
    /* Only the same directory matches, not another directory with the same
     * name. */
    check_moved("/new/libexec/mrail", "/usr/libexec/mrail",
                "/usr/libexec/mrail/mrail-run", "/new/libexec/mrail/mrail-run");
    check_moved("/home/build", "/usr/libexec/mrail",
                "/usr/libexec/mrail/mrail-run", NULL);
    check_moved("/new/sbin", "/usr/bin", "/usr/lib/mrail", NULL);
    check_moved("/new/xbin", "/usr/bin", "/usr/lib/mrail", NULL);
    check_moved("/a/folder/whose/name/is/long/so/that/it/does/not/fit/bin",
                "/usr/bin", "/usr/lib/mrail/openmpi", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_on_nics),
        cmocka_unit_test(test_run_as_rank),
        cmocka_unit_test(test_run_path_with_equals_sign),
        cmocka_unit_test(test_run_not_for_rank),
        cmocka_unit_test(test_run_on_software_rails),
        cmocka_unit_test(test_run_on_prrte),
        cmocka_unit_test(test_run_leaves_the_users_own),
        cmocka_unit_test(test_run_leaves_the_environment),
        cmocka_unit_test(test_run_keys_are_whole),
        cmocka_unit_test(test_moved_trees),
    };

    return cmocka_run_group_tests_name("tool", tests, NULL, NULL);
}
