"""The queue and the task of a job as columns of their own, so that lists of jobs are filtered by an index.

Computed from the definition: programs of the release before write them unknowingly. On PostgreSQL the table of jobs is
written anew once, which takes a second for 100,000 jobs; nobody edits jobs meanwhile.
"""

from alembic import op

revision = "0041"
down_revision = "0044"
branch_labels = None
depends_on = None

NAMES = ("queue", "task")


def upgrade() -> None:
    """Compute them, and index them."""
    for name in NAMES:
        if op.get_context().dialect.name == "postgresql":
            value = f"json_extract_path_text(definition, '{name}')"
            op.execute(f'ALTER TABLE jobs ADD COLUMN {name} text COLLATE "C" GENERATED ALWAYS AS ({value}) STORED')
        else:
            value = f"json_extract(definition, '$.{name}')"
            op.execute(f"ALTER TABLE jobs ADD COLUMN {name} TEXT GENERATED ALWAYS AS ({value}) VIRTUAL")
        op.create_index(f"ix_jobs_{name}", "jobs", [name, "job_id"])


def downgrade() -> None:
    """Find jobs by reading all again."""
    for name in NAMES:
        op.drop_index(f"ix_jobs_{name}", "jobs")
        op.execute(f"ALTER TABLE jobs DROP COLUMN {name}")
