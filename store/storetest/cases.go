package storetest

import "slices"

// cases returns the contract, by theme.
func cases() []testcase {
	return slices.Concat(
		commitCases(),
		inputCases(),
		limitCases(),
		readCases(),
		pageCases(),
		countCases(),
		watchCases(),
		flowCases(),
		backlogCases(),
		endCases(),
		ruleCases(),
		durableCases(),
		linearCases(),
	)
}
