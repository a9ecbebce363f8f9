#!/bin/sh
# A real Prometheus scrapes jobs on software rails during planted faults. The
# alerts must fire for the faults and for nothing else, and each dashboard query
# must return data. promtool checks the rules and the metrics. contrib/check
# --full runs this test. It needs neither root nor a running Prometheus.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need prometheus promtool python3
mrail=$build/stage/bin/mrail
[ -x "$mrail" ] || bail_out "$mrail is not installed"
[ -x "$build/mpi_exchange" ] || skip_all 'configure found no Open MPI to build with'
grep -q '^#define HAVE_MICROHTTPD 1' "$build/config.h" ||
    skip_all 'configure found no libmicrohttpd (libmicrohttpd-dev)'
files=$top/contrib/exporter

# ---- the files, as they are installed ----

check 'promtool check rules' promtool check rules "$files/mrail-alerts.yml"
check 'promtool check config' promtool check config "$files/prometheus.yml"
check 'promtool test rules' promtool test rules \
    "$top/test/prometheus/alerts_test.yml"
service=$(find "$build/stage" -name 'mrail-exporter@.service')
if command -v systemd-analyze >/dev/null; then
    cp "$service" "$tmp/mrail-exporter@nobody.service"
    check 'systemd accepts the service file' \
        systemd-analyze verify --man=no "$tmp/mrail-exporter@nobody.service"
    check 'systemd rates the hardening as sufficient' systemd-analyze security \
        --offline=yes --threshold=20 "$tmp/mrail-exporter@nobody.service"
else
    skip 'the service file' 'systemd-analyze is not installed'
fi

# ---- the jobs ----

# job NAME: starts a job, whose launcher runs in the background.
job()
{
    timeout 200 "$mrail" run -np 2 --soft 2x4 --session "$session-$1" \
        --rate 50M -- "$build/mpi_exchange" --seconds 180 --bytes 3000000 \
        >"$tmp/$1" 2>&1 &
}
under_way()
{
    await 60 grep -q 'under way' "$tmp/$1" ||
        bail_out "the job did not start: $(tail -n 1 "$tmp/$1")"
}
job get
UCX_RNDV_SCHEME=put_zcopy job put
under_way get
under_way put

"$mrail" exporter --print --per-lane >"$tmp/text"
check 'promtool check metrics' sh -c 'promtool check metrics <"$0"' "$tmp/text"

# ---- Prometheus ----

"$mrail" exporter --listen 127.0.0.1:0 >"$tmp/exporter" 2>&1 &
await 10 grep -q http "$tmp/exporter" ||
    bail_out "the exporter did not start: $(cat "$tmp/exporter")"
target=$(sed -n 's,.*http://\(.*\)/metrics,\1,p' "$tmp/exporter")

# The same rules with shorter times.
sed -e 's/for: [0-9]*[sm]/for: 1s/' -e 's/\[5m\]/[5s]/g' -e 's/\[10m\]/[10s]/' \
    -e 's/> 300$/> 4/' -e 's/> 30)/> 4)/' "$files/mrail-alerts.yml" \
    >"$tmp/alerts.yml"
cat >"$tmp/prometheus.yml" <<END
global:
  scrape_interval: 1s
  scrape_timeout: 1s
  evaluation_interval: 1s
rule_files:
  - alerts.yml
scrape_configs:
  - job_name: mrail
    static_configs:
      - targets: ['$target']
END
port=$(free_port)
prometheus --config.file="$tmp/prometheus.yml" --storage.tsdb.path="$tmp/data" \
    --web.listen-address="127.0.0.1:$port" --log.level=warn \
    >"$tmp/prometheus" 2>&1 &
server=$!
await 30 listens "$port" || bail_out "prometheus: $(tail -n 1 "$tmp/prometheus")"

run_program '' python3 "$top/test/prometheus/queries.py" \
    "http://127.0.0.1:$port" "$mrail" "$session" \
    "$files/mrail-dashboard.json"
kill $server
wait $server || true
finish
