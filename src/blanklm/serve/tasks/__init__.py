"""The tasks of the server. A task that is listed here has its endpoint, ``POST /v1/<name>``."""

from blanklm.serve.tasks.choose import ChooseTask
from blanklm.serve.tasks.fill import FillTask, SampleTask
from blanklm.serve.tasks.repair import RepairTask, WordsTask
from blanklm.serve.tasks.restore import RestoreTask
from blanklm.serve.tasks.score import ScoreTask
from blanklm.serve.tasks.task import Task
from blanklm.serve.tasks.transfer import TransferTask

TASKS: tuple[Task, ...] = (
    FillTask(),
    SampleTask(),
    ChooseTask(),
    ScoreTask(),
    WordsTask(),
    RepairTask(),
    RestoreTask(),
    TransferTask(),
)
