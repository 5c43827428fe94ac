"""Lets a real Prometheus scrape `vramfit serve`, and checks what it has stored.

    python3 tests/monitor/prometheus.py VRAMFIT
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import standin

TOKEN = "a-token-for-this-test"


def get(url, token=None):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def main():
    vramfit = sys.argv[1]
    folder = standin.build()
    for rules in ("dashboards/alerts.yml",):
        subprocess.run(["promtool", "check", "rules", str(standin.ROOT / rules)], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as name:
        place = pathlib.Path(name)
        guest = subprocess.Popen(["sleep", "900"])
        gpus = [standin.gpu(index, [guest.pid, 4_000_000_000]) for index in range(8)]
        scenario = dict(driver_version="570.86.15", gpus=gpus)
        standin.write(place / "scenario.json", scenario)
        (place / "token").write_text(TOKEN)
        command = [vramfit, "serve", "--port", "0", "-i", "0.2", "--per-process", "--token-file", str(place / "token")]
        server = subprocess.Popen(command, env=standin.environment(folder, place / "scenario.json"), stderr=subprocess.PIPE, text=True)
        prometheus = None
        try:
            address = re.search(r"http://([\d.:]+)/", server.stderr.readline()).group(1)
            time.sleep(1)
            (place / "prometheus.yml").write_text(json.dumps(dict(
                global_=None, scrape_configs=[dict(job_name="vramfit", scrape_interval="1s", scrape_timeout="1s", authorization=dict(credentials_file=str(place / "token")), static_configs=[dict(targets=[address])])],
                rule_files=[str(standin.ROOT / "dashboards/alerts.yml")],
            )).replace('"global_": null', '"global": {"evaluation_interval": "1s"}'))
            listen = f"127.0.0.1:{20000 + server.pid % 20000}"
            prometheus = subprocess.Popen(["prometheus", f"--config.file={place / 'prometheus.yml'}", f"--storage.tsdb.path={place / 'data'}", f"--web.listen-address={listen}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

            def ask(query):
                answer = json.loads(get(f"http://{listen}/api/v1/query?" + urllib.parse.urlencode(dict(query=query))))
                return answer["data"]["result"]

            def wait(query, condition, patience=60):
                end = time.monotonic() + patience
                found = None
                while time.monotonic() < end:
                    try:
                        found = ask(query)
                        if condition(found):
                            return found
                    except OSError:
                        pass
                    time.sleep(0.3)
                sys.exit(f"{query}: waited in vain; last answer {found}; targets {get(f'http://{listen}/api/v1/targets')[:2000]}")

            used = wait("vramfit_gpu_memory_used_bytes", lambda found: len(found) == 8)
            for series in used:
                gpu = gpus[int(series["metric"]["gpu"])]
                assert float(series["value"][1]) == gpu["memory"]["used"], series
                assert (series["metric"]["uuid"], series["metric"]["name"]) == (gpu["uuid"], gpu["name"]), series
            assert {series["value"][1] for series in ask("up")} == {"1"}
            wait("vramfit_process_gpu_memory_bytes", lambda found: any(series["metric"]["pid"] == str(guest.pid) for series in found))
            wait("rate(vramfit_samples_total[10s])", lambda found: found and float(found[0]["value"][1]) > 0)
            units = json.loads(get(f"http://{listen}/api/v1/targets/metadata?metric=vramfit_gpu_memory_used_bytes"))["data"][0]
            assert (units["type"], units["unit"]) == ("gauge", "bytes"), units
            scenario["faults"] = [dict(function="nvmlDeviceGetHandleByIndex", gpu=3, code=15)]
            standin.write(place / "scenario.json", scenario)
            lost = wait("vramfit_gpu_up == 0", lambda found: len(found) == 1)
            assert lost[0]["metric"]["uuid"] == gpus[3]["uuid"], "a lost GPU keeps its labels"
            rules = json.loads(get(f"http://{listen}/api/v1/rules"))["data"]["groups"][0]["rules"]
            assert {rule["health"] for rule in rules} <= {"ok", "unknown"}, rules
            pending = wait('ALERTS{alertname="GpuLost"}', lambda found: len(found) == 1)
            print(f"Prometheus scraped {len(used)} GPUs, {len(rules)} alert rules are healthy, GpuLost is {pending[0]['metric']['alertstate']}")
        finally:
            for process in (prometheus, server, guest):
                if process:
                    process.terminate()
                    process.wait()


main()
