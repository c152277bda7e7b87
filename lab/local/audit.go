package local

// auditPolicy has the API server write a line for each request that has been
// answered: who, which verb, of what, and whether it was allowed. The node's own
// programs and controllers are left out: they ask all the time.
// See audit.k8s.io/v1, Policy.
var auditPolicy = map[string]any{
	"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
	"omitStages": []string{"RequestReceived", "ResponseStarted"},
	"rules": []any{
		map[string]any{"level": "None", "userGroups": []string{"system:nodes", "system:serviceaccounts:kube-system", "system:serviceaccounts:istio-system", "system:serviceaccounts:linkerd"}},
		map[string]any{"level": "None", "users": []string{"system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy", "system:apiserver"}},
		map[string]any{"level": "Metadata"},
	},
}

// auditLog is the component's name in `lab logs`.
const auditLog = "audit"

// audits are the API server's arguments for the audit log; none without one.
func (s *spec) audits() []string {
	if !s.Audit {
		return nil
	}
	return []string{"--audit-policy-file=" + s.Dir.conf("audit.yaml"), "--audit-log-path=" + s.Dir.log(auditLog), "--audit-log-mode=blocking"}
}
