"""A site's own check of every job that the server sends: it must be exactly our stub."""

import json
from pathlib import Path

from nvflare.apis.app_validation import AppValidator

from autofgl.federation.engines.nvflare_stub import CLIENT_FILE, CONFIG, SERVER_FILE, client_config

#: NVFlare's signatures of the submitted files.
_SIGNATURES = {".__nvfl_sig.json", ".__nvfl_submitter.crt"}


class OnlyOurJob(AppValidator):  # type: ignore[misc]
    """Refuses any job but the stub, by content, whoever signed it."""

    def validate(self, app_folder: str) -> tuple[str, dict[str, bool]]:
        """See NVFlare's ``AppValidator``: an error, or the empty text."""
        return refusal(Path(app_folder)), {}


def refusal(app: Path) -> str:
    """Why a job's folder is refused; empty if it is the stub."""
    files = {path.relative_to(app).as_posix() for path in app.rglob("*") if _counts(path)}
    extra = files - {f"{CONFIG}/{CLIENT_FILE}", f"{CONFIG}/{SERVER_FILE}"}
    if extra:
        return f"refused: the job brings files of its own: {', '.join(sorted(extra))}"
    try:
        found = json.loads((app / CONFIG / CLIENT_FILE).read_text())
    except (OSError, ValueError) as error:
        return f"refused: the job's configuration cannot be read: {error}"
    ours = client_config()
    if found == ours:
        return ""
    theirs = found.get("autofgl") if isinstance(found, dict) else None
    if theirs != ours["autofgl"]:
        return (
            f"refused: runs autofgl {ours['autofgl']}, the coordinator {theirs}: install the same"
        )
    return "refused: the job is not AutoFGL's stub"


def _counts(path: Path) -> bool:
    return not path.is_dir() and path.name not in _SIGNATURES
