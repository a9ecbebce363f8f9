"use strict";
/* mrail report: tables, and the order in which the page is drawn. */

/* ---- load ---- */

function heat(bytes, highest) {
    return el("td", {class: "heat", "data-value": bytes,
        title: bytes.toLocaleString("en") + " bytes",
        style: "--a:" + (highest > 0 ? bytes / highest * .55 : 0).toFixed(3)},
    amount(bytes));
}

function showLoad() {
    const host = section("load");
    const rows = data.processes.map((process) => data.rails.map((rail, i) => {
        const own = process.rails.find((r) => r.rail === i);
        return own ? own.bytes : null;
    }));
    const highest = Math.max(0, ...rows.map((row) => Math.max(0, ...row)));
    const totals = data.rails.map((rail) => rail.bytes);
    const mean = sum(totals) / (totals.length || 1);
    const worst = totals.indexOf(Math.max(...totals));
    host.append(note("Bytes that each rank sent and fetched over each rail, " +
        "since its start." + (mean > 0 && totals.length > 1 ? " The rail with " +
        "the highest load, " + data.rails[worst].name + ", carried " +
        (totals[worst] / mean).toFixed(2) + " times the mean." : "")));
    const body = data.processes.map((process, i) => el("tr", {},
        el("th", {scope: "row"}, processName(process)),
        ...rows[i].map((bytes) => bytes === null ? el("td", {}, "") :
            heat(bytes, highest)),
        el("td", {}, amount(sum(rows[i])))));
    body.push(el("tr", {class: "sum"}, el("th", {scope: "row"}, "all"),
        ...totals.map((bytes) => el("td", {"data-value": bytes},
            amount(bytes))),
        el("td", {}, amount(sum(totals)))));
    host.append(table(heads("", ...data.rails.map((rail) => rail.name), "all"),
        body));
}

/* ---- plans ---- */

/* "node 0, rail 1, out" is in row "node 0, out" and column "rail 1". */
function placeOf(link) {
    const match = /^(.*), (rail \d+), (\w+)$/.exec(link);
    return match ? [match[1] + ", " + match[3], match[2]] : [link, "copies"];
}

function linkMatrix(title, links, key, longest) {
    const rowNames = [...new Set(links.map((link) => placeOf(link.link)[0]))];
    const columns = [...new Set(links.map((link) => placeOf(link.link)[1]))];
    const cells = new Map(links.map((link) =>
        [placeOf(link.link).join("|"), link]));
    const rows = rowNames.map((row) => el("tr", {},
        el("th", {scope: "row"}, row),
        ...columns.map((column) => {
            const link = cells.get(row + "|" + column);
            if (!link) {
                return el("td", {}, "");
            }
            const time = link[key] / link.capacity_bytes_per_s;
            return el("td", {class: "heat", "data-value": link[key],
                title: (time * 1e3).toFixed(3) + " ms at " +
                    rate(link.capacity_bytes_per_s),
                style: "--a:" + (time / longest * .55).toFixed(3)},
            amount(link[key]));
        })));
    return el("div", {}, el("h3", {}, title), table(heads("", ...columns),
        rows));
}

function showPlans() {
    const host = section("plans");
    if (data.plans.length === 0) {
        host.append(note((data.archive !== null ? "The archive contains" :
            "The job exported") + " no forecast: no exchange was large " +
            "enough for a plan, or the job ran without coll/mrail."));
        return;
    }
    for (const plan of data.plans) {
        const time = (link, key) => link[key] / link.capacity_bytes_per_s;
        const longest = Math.max(1e-12, ...plan.links.map((link) => Math.max(
            time(link, "unplanned_bytes"), time(link, "planned_bytes"))));
        const ms = (value) => value === null ? "an unknown time" :
            (value * 1e3).toFixed(1) + " ms";
        host.append(el("h3", {}, plan.communicator + ", " +
            count(plan.ranks, "rank", "ranks")));
        host.append(note((plan.forecasts === 1 ? "The only forecast" :
            "The last of " + plan.forecasts.toLocaleString("en") +
            " forecasts") + ", after " + seconds(plan.time_s) + ". " +
            (plan.planned ? "Without a plan, the busiest link needs " +
                ms(plan.unplanned_time_s) + ", and with it " +
                ms(plan.planned_time_s) + ". " + (plan.executed ?
                "The exchange followed the plan." :
                "The plan gained less than it cost, and was not used.") :
                "The exchange needs " + ms(plan.unplanned_time_s) +
                ". No plan was made, because it would have gained too little.")));
        host.append(el("div", {class: "pair"},
            linkMatrix(plan.planned ? "Before planning" : "Without a plan",
                plan.links, "unplanned_bytes", longest),
            plan.planned ? linkMatrix("After planning", plan.links,
                "planned_bytes", longest) : null));
        if (plan.links_left_out > 0) {
            host.append(note(count(plan.links_left_out, "further link is",
                "further links are") + " not shown."));
        }
    }
}

/* ---- ranks ---- */

function commOf(process) {
    return process.communicators.find((comm) =>
        comm.id === data.slowest.communicator);
}

function rankRow(process, longest) {
    const comm = commOf(process);
    const width = (value) => "width:" + (value / longest * 100).toFixed(2) + "%";
    const isSlow = process.rank === data.slowest.rank;
    return el("tr", {},
        el("td", {class: isSlow ? "bad" : ""}, processName(process)),
        el("td", {"data-value": comm.outside_s}, seconds(comm.outside_s)),
        el("td", {"data-value": comm.inside_s}, seconds(comm.inside_s)),
        el("td", {}, comm.entered.toLocaleString("en")),
        el("td", {class: "bar"}, el("div", {},
            el("span", {class: "outside", style: width(comm.outside_s)}),
            el("span", {class: "inside", style: width(comm.inside_s)}))));
}

function showRanks() {
    const host = section("ranks");
    const known = data.processes.filter((process) => commOf(process));
    if (known.length === 0) {
        host.append(note((data.archive !== null ? "The archive contains no " +
            "MPI calls of the job" : "The job does not record its MPI calls") +
            ", so its ranks cannot be compared."));
        return;
    }
    const comm = commOf(known[0]);
    known.sort((a, b) => commOf(b).outside_s - commOf(a).outside_s);
    host.append(note("Time outside and inside the collectives of " +
        (comm.name || "a communicator") + ". The ranks that compute longest " +
        "come first; the other ranks wait for them in collectives. " +
        (data.slowest.rank === null ? "No rank stands out." :
            "Rank " + data.slowest.rank + " computed " +
            seconds(data.slowest.longer_s) + " longer than the median rank.")));
    const longest = Math.max(1e-9, ...known.map((process) =>
        commOf(process).outside_s + commOf(process).inside_s));
    host.append(el("div", {class: "legend"},
        el("span", {}, el("i", {style: "background:var(--r1)"}),
            "outside collectives"),
        el("span", {}, el("i", {style: "background:var(--r0);opacity:.45"}),
            "in collectives")));
    const shown = (list) => table(heads("Rank", "Outside", "Inside",
        "Collectives", ""), list.map((p) => rankRow(p, longest)), "wide");
    host.append(shown(known.slice(0, 16)));
    if (known.length > 16) {
        host.append(lazy("All " + known.length + " ranks", () => shown(known)));
    }
}

/* ---- counters ---- */

function showCounters() {
    const host = section("counters");
    const names = Object.keys(data.counters);
    const used = names.filter((key) => data.counters[key] > 0);
    const unused = names.filter((key) => data.counters[key] === 0);
    const values = (key) => data.processes.map((p) => p.counters[key] || 0);
    host.append(note("Sums over all ranks, with the lowest and the highest " +
        "value of a rank. docs/metrics.md explains them."));
    host.append(table(heads("Counter", "Sum", "Lowest", "Highest"),
        used.map((key) => el("tr", {},
            el("td", {}, el("code", {}, key)),
            el("td", {"data-counter": key, "data-value": data.counters[key]},
                data.counters[key].toLocaleString("en")),
            el("td", {}, Math.min(...values(key)).toLocaleString("en")),
            el("td", {}, Math.max(...values(key)).toLocaleString("en"))))));
    if (unused.length > 0) {
        host.append(note("These are 0: " + unused.join(", ") + "."));
    }
    host.append(lazy("Counters of each rank", () => table(
        heads("Rank", ...used), data.processes.map((process) => el("tr", {},
            el("td", {}, processName(process)),
            ...used.map((key) => el("td", {}, (process.counters[key] || 0)
                .toLocaleString("en"))))))));
    showCalls(host);
}

function showCalls(host) {
    const calls = new Map();
    for (const process of data.processes) {
        for (const comm of process.communicators) {
            for (const key in comm.calls) {
                calls.set(key, (calls.get(key) || 0) + comm.calls[key]);
            }
        }
    }
    if (calls.size > 0) {
        host.append(el("h3", {}, "Collectives"), note("Calls of all ranks, as " +
            "of the last sample."), table(heads("Call", "Sum"),
            [...calls].sort((a, b) => b[1] - a[1]).map(([key, value]) =>
                el("tr", {}, el("td", {}, el("code", {}, key)),
                    el("td", {"data-call": key, "data-value": value},
                        value.toLocaleString("en"))))));
    }
}

/* ---- configuration ---- */

function pairs(rows) {
    return table([], rows.map(([key, value]) => el("tr", {},
        el("th", {scope: "row"}, key),
        el("td", {class: "text long"}, value))));
}

function recordingText(recording) {
    if (recording.live) {
        return "from " + seconds(Math.max(recording.begin_s, 0)) + " to " +
            seconds(recording.end_s) + ", " + count(recording.samples,
            "sample", "samples") + ", ended because: " + recording.end;
    }
    return data.archive === null ?
        "the job had ended; its files were read once" :
        "an archive of " + utc(data.archive.collected_epoch_s, 19) +
            "; its times are aligned to within " +
            (data.archive.error_s * 1e3).toFixed(3) + " ms";
}

function hostRow(host) {
    if (host.error !== undefined) {
        return el("tr", {}, el("td", {class: "text"}, host.name),
            el("td", {class: "bad"}, "missing"), el("td", {}, ""),
            el("td", {class: "text long"}, host.error));
    }
    const own = data.processes.filter((p) => p.host === host.name);
    return el("tr", {}, el("td", {class: "text"}, host.name),
        el("td", {}, own.length),
        el("td", {}, host.offset_s.toFixed(6) + " s"),
        el("td", {}, (host.error_s * 1e3).toFixed(3) + " ms"));
}

function showHosts(host) {
    host.append(el("h3", {}, "Hosts"), note("The times on this page are " +
        "corrected for the time by which each host's clock was ahead. The " +
        "last column is a bound on the remaining error."),
    table(heads("Host", "Processes", "Clock ahead", "Error"),
        data.archive.hosts.map(hostRow)));
}

function showConfiguration() {
    const host = section("configuration"), recording = data.recording;
    const programs = [...new Set(data.processes.map((p) => p.program))];
    const environment = data.configuration.environment;
    host.append(pairs([
        ["Program", programs.join(", ")],
        ["Node", data.host],
        ["Start of the job", utc(recording.start_epoch_s, 24)],
        ["Recording", recordingText(recording)],
        ["Files that could not be read", recording.files_refused]]));
    if (data.archive !== null) {
        showHosts(host);
    }
    host.append(el("h3", {}, "Rails"));
    host.append(table(heads("Rail", "Port rate", "Lanes of a rank"),
        data.rails.map((rail, i) => {
            const lanes = data.processes.map((p) => p.rails.find((r) =>
                r.rail === i)).filter((r) => r).map((r) => r.lanes);
            const low = Math.min(...lanes), high = Math.max(...lanes);
            return el("tr", {}, el("td", {}, rail.name),
                el("td", {}, rail.nominal_bytes_per_s > 0 ?
                    rate(rail.nominal_bytes_per_s) : "unknown"),
                el("td", {}, low === high ? low : low + " to " + high));
        })));
    host.append(el("h3", {}, "Parameters"));
    if (data.configuration.rank === null) {
        host.append(note("The parameters are unknown, because no process " +
            "environment of the job could be read."));
    } else if (Object.keys(environment).length === 0) {
        host.append(note("The environment of rank " + data.configuration.rank +
            " sets no parameter."));
    } else {
        host.append(note("From the environment of rank " +
            data.configuration.rank + ". Parameters that are not listed have " +
            "their defaults, or come from files."));
        host.append(table([], Object.keys(environment).map((key) => el("tr", {},
            el("td", {}, el("code", {}, key)),
            el("td", {class: "text long"}, el("code", {}, environment[key]))))));
    }
}

/* ---- the page ---- */

function tile(value, text, isBad) {
    return el("div", {class: isBad ? "tile bad" : "tile"}, el("b", {}, value),
        el("span", {}, text));
}

function showHead() {
    const totals = data.totals, recording = data.recording;
    const ranks = count(totals.processes, "process", "processes");
    const programs = [...new Set(data.processes.map((p) => p.program))];
    section("meta").textContent = [programs.join(", "), ranks + " on " +
        data.host, "started " + utc(recording.start_epoch_s, 16)]
        .join(" \u00b7 ");
    if (totals.killed + totals.lost + totals.lanes_failed > 0 ||
        (data.archive !== null && data.archive.hosts_missing +
            data.archive.processes_left_out + data.archive.files_lost > 0)) {
        section("summary").classList.add("bad");
    }
    section("tiles").append(
        tile(amount(totals.bytes), "carried by all rails"),
        tile(rate(totals.mean_bytes_per_s), "mean bandwidth"),
        tile(rate(totals.peak_bytes_per_s), "highest bandwidth"),
        tile(seconds(data.grid.end_s - data.grid.begin_s), recording.live ?
            "recorded" : data.archive !== null ? "in the archive" :
                "in the records"),
        tile(totals.lanes_failed.toLocaleString("en"), "failed lanes",
            totals.lanes_failed > 0),
        tile(totals.running > 0 ? totals.running : totals.killed,
            totals.running > 0 ? "processes running" : "processes killed",
            totals.running === 0 && totals.killed > 0));
    section("footer").textContent = "mrail " + data.version + ". The page " +
        "contains its figures as JSON, and needs no network.";
}

showHead();
showBandwidth();
showFaults();
showLoad();
showPlans();
showRanks();
showCounters();
showConfiguration();
window.addEventListener("beforeprint", () => {
    document.querySelectorAll("#counters details").forEach((details) => {
        details.open = true;
    });
});
document.documentElement.dataset.drawn = Math.round(performance.now());
