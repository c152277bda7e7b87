package local

// auditPolicy has the API server write a line for each request that has been
// answered: who, which verb, of what, and whether it was allowed. The node's own
// programs and controllers are left out: they ask all the time.
// See audit.k8s.io/v1, Policy.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {level: None, userGroups: ["system:nodes", "system:serviceaccounts:kube-system", "system:serviceaccounts:istio-system", "system:serviceaccounts:linkerd"]}
- {level: None, users: ["system:kube-controller-manager", "system:kube-scheduler", "system:kube-proxy", "system:apiserver"]}
- {level: Metadata}
`

// auditLog is the component's name in `lab logs`.
const auditLog = "audit"

// audits adds the API server's arguments for the audit log, if there is to be
// one.
func (s *spec) audits(p process) process {
	if s.Audit {
		p.args = append(p.args, "--audit-policy-file="+s.Dir.conf("audit.yaml"), "--audit-log-path="+s.Dir.log(auditLog), "--audit-log-mode=blocking")
	}
	return p
}
