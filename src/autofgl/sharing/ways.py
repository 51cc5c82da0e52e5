"""The ways of sharing that any method with one network for all may take, by name."""

from autofgl.runtime.sharing import Sharing
from autofgl.sharing.across.common import ACROSS
from autofgl.sharing.before_averaging import BEFORE_AVERAGING
from autofgl.sharing.common import COMMON
from autofgl.sharing.ditto import DITTO
from autofgl.sharing.head import HEAD
from autofgl.sharing.likeness import FED_PUB, FEDGTA
from autofgl.sharing.personal import PERSONAL

#: The first is that of a run that names none.
WAYS_OF_SHARING: dict[str, Sharing] = {
    way.name: way for way in (COMMON, PERSONAL, HEAD, DITTO, ACROSS, FEDGTA, FED_PUB)
}

#: The same, and what ``evaluate=local-before-averaging`` asks for, which trains as the first does.
WAYS: dict[str, Sharing] = {**WAYS_OF_SHARING, BEFORE_AVERAGING.name: BEFORE_AVERAGING}
