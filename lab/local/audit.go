package local

// auditPolicy has the API server log who made which request, and whether it was
// allowed. Requests of the node's own programs and controllers are left out.
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
