"""Readers of published traces, on files of their formats: the examples of their descriptions."""

import json
from pathlib import Path

import pytest

from research.themis.simulation.traces import apps_of, jobs_of

HELIOS = """\
job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
1425511,uXBbc,vcJkd,1,1,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0
1425512,uVMrF,vchbv,4,16,1,FAILED,2020-06-09 18:41:27,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0
1425513,uzqls,vcpDC,0,1,1,CANCELLED,2020-06-09 18:41:28,2020-06-09 18:41:28,2020-06-17 14:15:21,675233,0
1425514,uXBbc,vcJkd,1,1,1,COMPLETED,2020-06-09 18:41:31,2020-06-09 18:41:31,2020-06-09 18:51:31,600,0
"""  # noqa: E501
KALOS = """\
job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,start_time,end_time,fail_time,stop_time,duration,queue,gpu_time
dlctk696s0jbvitv,uf794,8,64,960,1000,100.0,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,2023-05-17 11:01:16+00:00,2023-05-17 11:01:16+00:00,,18,10.0,1152.0
dlc1t2ypl09b8qtp,uf794,8,64,960,1000,100.0,Other,CANCELLED,2023-05-17 11:28:42+00:00,2023-05-17 11:28:54+00:00,2023-05-17 11:30:04+00:00,,2023-05-17 11:30:04+00:00,82,12.0,5248.0
"""  # noqa: E501
PHILLY = [
    {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": "application_1506638472019_14199",
        "attempts": [
            {
                "start_time": "2017-10-07 01:12:09",
                "end_time": "2017-10-07 01:13:23",
                "detail": [{"ip": "m47", "gpus": [f"gpu{n}" for n in range(8)]}],
            },
            {
                "start_time": "2017-10-07 01:13:30",
                "end_time": "2017-10-07 01:14:10",
                "detail": [
                    {"ip": "m412", "gpus": ["gpu0", "gpu1"]},
                    {"ip": "m1", "gpus": ["gpu3"]},
                ],
            },
        ],
        "submitted_time": "2017-10-07 01:11:00",
        "user": "ce2c4a",
    },
    {"status": "Killed", "vc": "x", "jobid": "b", "attempts": [], "user": "u",
     "submitted_time": "2017-10-07 01:20:00"},
]  # fmt: skip


def test_helios(tmp_path: Path) -> None:
    path = tmp_path / "cluster_log.csv"
    path.write_text(HELIOS)
    jobs = list(jobs_of(path))
    assert [(job.workers, job.seconds, job.state) for job in jobs] == [
        (1, 36848, "COMPLETED"),
        (4, 249, "FAILED"),
        (1, 600, "COMPLETED"),
    ]
    apps = apps_of(jobs)
    # the jobs of uXBbc, 30 s apart, are one app: both for 600 s, and one for the rest
    assert [app.arrival for app in apps] == [0, 26]
    assert [(one.jobs, one.seconds) for one in apps[0].stages] == [(2, 600), (1, 36248)]
    assert [(one.jobs, one.seconds, one.most) for one in apps[1].stages] == [(1, 4 * 249, 4)]
    assert len(apps_of(jobs, together=10)) == 3


def test_acme(tmp_path: Path) -> None:
    path = tmp_path / "trace_kalos.csv"
    path.write_text(KALOS)
    jobs = list(jobs_of(path))
    assert [(job.workers, job.seconds, job.kind) for job in jobs] == [
        (64, 18, "Other"),
        (64, 82, "Other"),
    ]
    assert jobs[1].submitted - jobs[0].submitted == 27 * 60 + 44
    assert [app.work for app in apps_of(jobs)] == [1152, 5248]  # their gpu_time


def test_philly(tmp_path: Path) -> None:
    path = tmp_path / "cluster_job_log"
    path.write_text(json.dumps(PHILLY))
    jobs = list(jobs_of(path))
    assert [(job.user, job.workers, job.seconds) for job in jobs] == [("ce2c4a", 3, 74 + 40)]


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="has no column user"):
        list(jobs_of(path))
    assert apps_of([]) == []
