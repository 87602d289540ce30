-- The documented names of the macros in macros.sql, whose own names have a prefix that avoids
-- conflicts. If a database has its own macro of such a name, tuskml.load does not replace it.
CREATE OR REPLACE TEMP MACRO sparse(indices, vals) AS tuskml_sparse(indices, vals);
CREATE OR REPLACE TEMP MACRO with_payload(model) AS tuskml_with_payload(model);
CREATE OR REPLACE TEMP MACRO predict
    (model, features) AS tuskml_predict(model, features),
    (model_name, in_group, features) AS tuskml_predict(model_name, in_group, features);
CREATE OR REPLACE TEMP MACRO predict_class(model, features) AS tuskml_predict_class(model, features);
CREATE OR REPLACE TEMP MACRO predict_probas(model, features) AS tuskml_predict_probas(model, features);
CREATE OR REPLACE TEMP MACRO predict_proba
    (model, features) AS tuskml_predict_proba(model, features),
    (model_name, in_group, features) AS tuskml_predict_proba(model_name, in_group, features);
CREATE OR REPLACE TEMP MACRO decision
    (model, features) AS tuskml_decision(model, features),
    (model_name, in_group, features) AS tuskml_decision(model_name, in_group, features);
CREATE OR REPLACE TEMP MACRO predict_with_offset(model, features, "offset") AS
    tuskml_predict_with_offset(model, features, "offset");
CREATE OR REPLACE TEMP MACRO predict_proba_with_offset(model, features, "offset") AS
    tuskml_predict_proba_with_offset(model, features, "offset");
CREATE OR REPLACE TEMP MACRO predict_class_with_offset(model, features, "offset") AS
    tuskml_predict_class_with_offset(model, features, "offset");
CREATE OR REPLACE TEMP MACRO predict_interval
    (model, features) AS tuskml_predict_interval(model, features),
    (model, features, level) AS tuskml_predict_interval(model, features, level);
CREATE OR REPLACE TEMP MACRO drift(model, features, weight := 1) AS tuskml_drift(model, features, weight := weight);
CREATE OR REPLACE TEMP MACRO marginal_effects(model, features, weight := 1, "offset" := 0) AS
    tuskml_marginal_effects(model, features, weight := weight, "offset" := "offset");
CREATE OR REPLACE TEMP MACRO predict_topics(model, tokens) AS tuskml_predict_topics(model, tokens);
CREATE OR REPLACE TEMP MACRO model_topics(model, words := 10) AS TABLE FROM tuskml_model_topics(model, words := words);
CREATE OR REPLACE TEMP MACRO perplexity(model, tokens) AS tuskml_perplexity(model, tokens);
CREATE OR REPLACE TEMP MACRO coherence(model, tokens, measure := 'c_v', words := 20) AS
    tuskml_coherence(model, tokens, measure := measure, words := words);
CREATE OR REPLACE TEMP MACRO deployed_model(model_name, in_group := '') AS
    tuskml_deployed_model(model_name, in_group := in_group);
CREATE OR REPLACE TEMP MACRO register_model(
    model_name, source, in_group := '''''', metrics := '''{}''', recipe := NULL, data_fingerprint := 'NULL', as_version := NULL
) AS TABLE FROM tuskml_register_model(model_name, source, in_group := in_group, metrics := metrics, recipe := recipe,
                                      data_fingerprint := data_fingerprint, as_version := as_version);
CREATE OR REPLACE TEMP MACRO deploy(model_name, to_version := NULL, in_group := NULL) AS TABLE FROM
    tuskml_deploy(model_name, to_version := to_version, in_group := in_group);
CREATE OR REPLACE TEMP MACRO rollback(model_name, in_group := NULL) AS TABLE FROM
    tuskml_rollback(model_name, in_group := in_group);
CREATE OR REPLACE TEMP MACRO model_fingerprint(model) AS tuskml_model_fingerprint(model);
CREATE OR REPLACE TEMP MACRO model_to_sql(model, answer := 'predict', class := NULL) AS
    tuskml_model_to_sql(model, answer := answer, class := class);
CREATE OR REPLACE TEMP MACRO model_card(model) AS tuskml_model_card(model);
CREATE OR REPLACE TEMP MACRO model_card(model) AS TABLE FROM tuskml_model_card(model);
-- Not by its prefixed name, which a function in C has too: DuckDB would call that one.
CREATE OR REPLACE TEMP MACRO model_summary(model) AS TABLE FROM _tusk_summary_of(model);
CREATE OR REPLACE TEMP MACRO recommend(model, for_user, n := 10, exclude := []) AS
    tuskml_recommend(model, for_user, n := n, exclude := exclude);
CREATE OR REPLACE TEMP MACRO recommend(model, for_user, n := 10, exclude := []) AS TABLE FROM
    tuskml_recommend(model, for_user, n := n, exclude := exclude);
CREATE OR REPLACE TEMP MACRO recommend_by_items(model, items, ratings, n := 10, exclude := []) AS
    tuskml_recommend_by_items(model, items, ratings, n := n, exclude := exclude);
CREATE OR REPLACE TEMP MACRO recommend_by_items(model, items, ratings, n := 10, exclude := []) AS TABLE FROM
    tuskml_recommend_by_items(model, items, ratings, n := n, exclude := exclude);
CREATE OR REPLACE TEMP MACRO similar_items(model, to_item, n := 10, exclude := []) AS
    tuskml_similar_items(model, to_item, n := n, exclude := exclude);
CREATE OR REPLACE TEMP MACRO similar_items(model, to_item, n := 10, exclude := []) AS TABLE FROM
    tuskml_similar_items(model, to_item, n := n, exclude := exclude);
CREATE OR REPLACE TEMP MACRO model_fit(model) AS TABLE FROM tuskml_model_fit(model);
CREATE OR REPLACE TEMP MACRO model_covariance(model) AS TABLE FROM tuskml_model_covariance(model);
CREATE OR REPLACE TEMP MACRO model_contrast(model, weights) AS TABLE FROM tuskml_model_contrast(model, weights);
CREATE OR REPLACE TEMP MACRO model_terms(model) AS TABLE FROM tuskml_model_terms(model);
CREATE OR REPLACE TEMP MACRO model_trials(model) AS TABLE FROM tuskml_model_trials(model);
CREATE OR REPLACE TEMP MACRO model_path(model) AS TABLE FROM tuskml_model_path(model);
CREATE OR REPLACE TEMP MACRO train(source, task, label, features, options := '', weight := '', "offset" := '', group_by := []) AS TABLE FROM
    tuskml_train(source, task, label, features, options := options, weight := weight, "offset" := "offset", group_by := group_by);
CREATE OR REPLACE TEMP MACRO tree_dump(model) AS TABLE FROM tuskml_tree_dump(model);
CREATE OR REPLACE TEMP MACRO feature_importance(model) AS TABLE FROM tuskml_feature_importance(model);
CREATE OR REPLACE TEMP MACRO explain_prediction(model, features) AS TABLE FROM tuskml_explain_prediction(model, features);
CREATE OR REPLACE TEMP MACRO partitionings() AS TABLE FROM tuskml_partitionings();
CREATE OR REPLACE TEMP MACRO permutation_importance(source, model, label, features, group_by := '', repeats := 5, seed := 0) AS TABLE FROM
    tuskml_permutation_importance(source, model, label, features, group_by := group_by, repeats := repeats, seed := seed);
CREATE OR REPLACE TEMP MACRO partial_dependence(source, model, features, feature, group_by := '', points := 50) AS TABLE FROM
    tuskml_partial_dependence(source, model, features, feature, group_by := group_by, points := points);
