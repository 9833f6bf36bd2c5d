"""Whether what applies names the account that its namespace requires it to name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controllers.applying.applier import Applier
from toolkit.policy import tenancy


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The rule, with what it rests on: labels of namespaces, and the flag's default account."""

    labels: Callable[[str], Mapping[str, str]]
    default: str

    def require(self, obj: Applier) -> None:
        """Let the object apply.

        Raises:
            AccessDeniedError: it must name an account and does not.
            WaitingError: the labels of the namespace are not known yet.
        """
        tenancy.require_account(
            self.labels(obj.metadata.namespace),
            account=obj.spec.service_account_name or self.default,
            remote=obj.spec.kube_config is not None,
        )
