package graph

import "github.com/meshtrial/meshtrial/study"

// FailureValue is a failure in a study file.
func FailureValue(f *Failure) study.Value {
	return study.Object{Name: "a failure", Flow: true, Fields: []study.Field{
		{Name: "share", Required: true, Doc: "Share of all requests.", Value: study.Portion(&f.Share).OmitZero()},
		{Name: "how", Doc: "status if left out.", Value: study.OneOf(&f.How, FailStatus, FailReset, FailHang, FailSlowBody, FailCrash)},
		{Name: "status", Doc: "Status of the response (how: status).", Value: study.Int(&f.Status, 400, 599).OmitZero()},
	}}
}

// TimeValue is a service time in a study file.
func TimeValue(t *ServiceTime) study.Object {
	return study.TimeObject(&t.Distribution, &t.Mean, &t.Sigma, &t.Values)
}
