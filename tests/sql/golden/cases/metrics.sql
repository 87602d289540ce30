-- data: cars, patients
CREATE TABLE scored AS
SELECT second_attack AS label, predict(model, ARRAY[treatment, anxiety]) AS class,
       predict_proba(model, ARRAY[treatment, anxiety]) AS p
FROM patients CROSS JOIN (SELECT train_model('logistic', second_attack, ARRAY[treatment, anxiety], '{"epsilon": 1e-10}') AS model FROM patients) AS t;
SELECT CAST(log_loss(label, p) AS DECIMAL(12, 6)) AS log_loss, CAST(auc(label, p) AS DECIMAL(12, 6)) AS auc,
       CAST(accuracy(label, class) AS DECIMAL(12, 6)) AS accuracy
FROM scored;

SELECT cyl, CAST(rmse(mpg, predict(model, ARRAY[wt])) AS DECIMAL(12, 6)) AS rmse,
       CAST(mae(mpg, predict(model, ARRAY[wt])) AS DECIMAL(12, 6)) AS mae,
       CAST(r2(mpg, predict(model, ARRAY[wt])) AS DECIMAL(12, 6)) AS r2
FROM cars CROSS JOIN (SELECT train_model('linear', mpg, ARRAY[wt]) AS model FROM cars) AS t
GROUP BY cyl ORDER BY cyl;

SELECT log_loss(label, p) AS log_loss, auc(label, p) AS auc, accuracy(label, class) AS accuracy, rmse(p, p) AS rmse,
       mae(p, p) AS mae, r2(p, p) AS r2
FROM scored WHERE label > 1;

SELECT CAST(precision_score(label, class) AS DECIMAL(12, 6)) AS "precision", CAST(recall_score(label, class) AS DECIMAL(12, 6)) AS recall,
       CAST(f1_score(label, class) AS DECIMAL(12, 6)) AS f1, CAST(average_precision(label, p) AS DECIMAL(12, 6)) AS average_precision,
       CAST(brier(label, p) AS DECIMAL(12, 6)) AS brier
FROM scored;

SELECT (cell).label AS label, (cell).predicted AS predicted, (cell).n AS n FROM (SELECT unnest(confusion(label, class)) AS cell FROM scored) AS t ORDER BY 1, 2;

SELECT (point).threshold AS threshold, (point).tpr AS tpr, (point).fpr AS fpr
FROM (SELECT unnest(roc_curve(label, round(p * 3))) AS point FROM scored) AS t ORDER BY 1 DESC;

SELECT (bin).bin AS bin, (bin).lower AS lower, (bin).upper AS upper, CAST((bin).mean_p AS DECIMAL(12, 6)) AS mean_p, CAST((bin).rate AS DECIMAL(12, 6)) AS rate, (bin).n AS n
FROM (SELECT unnest(calibration(label, p, 4)) AS bin FROM scored) AS t ORDER BY 1;

SELECT (decile).decile AS decile, (decile).n AS n, (decile).positives AS positives, CAST((decile).rate AS DECIMAL(12, 6)) AS rate,
       CAST((decile).lift AS DECIMAL(12, 6)) AS lift, CAST((decile).cumulative_gain AS DECIMAL(12, 6)) AS cumulative_gain
FROM (SELECT unnest(lift(label, p)) AS decile FROM scored) AS t ORDER BY 1;

SELECT cyl, CAST(mape(mpg, p) AS DECIMAL(12, 6)) AS mape, CAST(pinball(mpg, p, 0.9) AS DECIMAL(12, 6)) AS pinball,
       CAST(poisson_deviance(mpg, p) AS DECIMAL(12, 6)) AS poisson, CAST(gamma_deviance(mpg, p) AS DECIMAL(12, 6)) AS gamma
FROM (SELECT cyl, mpg, predict(model, ARRAY[wt]) AS p FROM cars CROSS JOIN (SELECT train_model('linear', mpg, ARRAY[wt]) AS model FROM cars) AS t) AS t
GROUP BY cyl ORDER BY cyl;

SELECT CAST(f1_score(grade, guess, 'macro') AS DECIMAL(12, 6)) AS macro, CAST(f1_score(grade, guess, 'weighted') AS DECIMAL(12, 6)) AS weighted,
       accuracy(grade, guess) AS accuracy
FROM (VALUES ('good', 'good'), ('good', 'fair'), ('fair', 'fair'), ('poor', 'fair')) AS t (grade, guess);
