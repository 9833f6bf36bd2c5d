"""Whether an applier names a service account, if its namespace requires one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controllers.applying.applier import Applier
from toolkit.policy import tenancy


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The rule, with its inputs: the labels of namespaces, and the flag for a default account."""

    labels: Callable[[str], Mapping[str, str]]
    default: str

    def require(self, obj: Applier) -> None:
        """Require that the object names an account if the labels of its namespace say so.

        Raises:
            AccessDeniedError: the object must name an account and does not.
            WaitingError: the labels of the namespace have not been listed yet.
        """
        tenancy.require_account(
            self.labels(obj.metadata.namespace),
            account=obj.spec.service_account_name or self.default,
            remote=obj.spec.kube_config is not None,
        )
