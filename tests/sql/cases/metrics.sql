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
