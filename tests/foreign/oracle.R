# Fits models to R's own data sets, and writes rows and results for test_r.py.
#
#   Rscript oracle.R FOLDER
#
# Writes a file of rows for each data set and response, NUMBER.csv, whose header says the type of each
# column, the response first; and results.tsv, a line for each number: file, family, quantity, term,
# value. A term is spelt as model_summary spells it. Fits that R fails at are left out and listed with the
# reason in left_out.tsv: file, family, reason.

suppressPackageStartupMessages({
    library(MASS)
    library(nnet)
    library(quantreg)
    library(sandwich)
    library(glmnet)
})

PACKAGES <- c("datasets", "MASS", "quantreg", "sandwich", "survival", "nlme", "mgcv", "lattice", "rpart",
              "class", "nnet", "boot", "cluster")
MOST_ROWS <- 1500
LEAST_ROWS <- 15
PREDICTIONS <- 15
TAUS <- c(0.25, 0.5, 0.9)
EXACT <- "the fit is exact, so that errors are those of rounding"
UNFINISHED <- "R does not converge"
SEPARABLE <- "R goes on towards infinity: the rows have no optimum"
CLAMPED <- "R takes a smaller probability for 2e-16, and so has another likelihood"
PRECISE <- glm.control(epsilon = 1e-14, maxit = 200)

folder <- commandArgs(TRUE)[1]
results <- file(file.path(folder, "results.tsv"), "w")
left_out <- file(file.path(folder, "left_out.tsv"), "w")

say <- function(file, family, quantity, term, value) {
    if (length(value) == 0) return(invisible())
    writeLines(paste(file, family, quantity, term, sprintf("%.17g", as.numeric(value)), sep = "\t"), results)
}

# The data sets of a package that are data frames or tables, by name.
data_sets <- function(package) {
    if (!requireNamespace(package, quietly = TRUE)) return(list())
    items <- sub(" .*", "", data(package = package)$results[, "Item"])
    found <- list()
    for (item in items) {
        where <- new.env()
        try(suppressWarnings(data(list = item, package = package, envir = where)), silent = TRUE)
        one <- where[[item]]
        if (is.null(one) && package == "datasets") one <- tryCatch(get(item, "package:datasets"),
                                                                  error = function(e) NULL)
        if (is.table(one) && length(dim(one)) <= 4) one <- as.data.frame(one)
        if (is.data.frame(one)) found[[paste0(package, "_", item)]] <- one
    }
    found
}

# Numbers and factors without gaps, of plain names and levels; the first level comes first by its bytes.
cleaned <- function(frame) {
    frame <- as.data.frame(unclass(frame), stringsAsFactors = FALSE, optional = TRUE)
    kept <- list()
    for (name in names(frame)) {
        column <- frame[[name]]
        if (is.list(column) || !is.null(dim(column)) || inherits(column, c("Date", "POSIXt", "difftime", "Surv"))) next
        if (is.logical(column) || is.character(column) || is.factor(column)) {
            text <- gsub("[^A-Za-z0-9 .+<>=-]", "_", as.character(column))
            kept[[name]] <- factor(text, levels = sort(unique(text), method = "radix"))
        } else if (is.numeric(column)) {
            kept[[name]] <- as.numeric(column)
        }
    }
    if (length(kept) < 2) return(NULL)
    frame <- as.data.frame(kept, stringsAsFactors = FALSE)
    names(frame) <- make.unique(gsub("[^a-z0-9]+", "_", tolower(names(kept))), sep = "_")
    frame <- frame[stats::complete.cases(frame), , drop = FALSE]
    if (nrow(frame) > MOST_ROWS) {
        frame <- frame[round(seq(1, nrow(frame), length.out = MOST_ROWS)), , drop = FALSE]
    }
    if (nrow(frame) < LEAST_ROWS) return(NULL)
    frame <- droplevels(frame)
    varies <- vapply(frame, function(column) length(unique(column)) > 1, logical(1))
    frame[, varies, drop = FALSE]
}

# At most three numbers and two categories that do not determine each other.
predictors <- function(frame, response) {
    others <- setdiff(names(frame), response)
    numbers <- Filter(function(name) is.numeric(frame[[name]]), others)
    levels <- Filter(function(name) is.factor(frame[[name]]) && nlevels(frame[[name]]) <= 12, others)
    chosen <- c(head(numbers, 3), head(levels, 2))
    while (length(chosen)) {
        design <- model.matrix(reformulate(sprintf("`%s`", chosen)), frame)
        scaled <- scale(design[, -1, drop = FALSE])
        if (nrow(frame) > 3 * ncol(design) && kappa(cbind(1, scaled), exact = TRUE) < 1e5) break
        chosen <- head(chosen, -1)
    }
    chosen
}

# model_summary's spelling of each of R's coefficients.
spelt <- function(frame, chosen) {
    names <- c("(Intercept)" = "intercept")
    for (name in chosen) {
        if (is.factor(frame[[name]])) {
            for (level in levels(frame[[name]])[-1]) names[paste0(name, level)] <- sprintf("%s[%s]", name, level)
        } else names[name] <- name
    }
    names
}

write_rows <- function(file, frame, response, chosen) {
    rows <- frame[, c(response, chosen), drop = FALSE]
    types <- ifelse(vapply(rows, is.factor, logical(1)), "text", "number")
    text <- lapply(rows, function(column) if (is.factor(column)) as.character(column) else sprintf("%.17g", column))
    out <- file.path(folder, paste0(file, ".csv"))
    writeLines(paste(names(rows), types, sep = ":", collapse = "\t"), out)
    write.table(as.data.frame(text), out, sep = "\t", quote = FALSE, row.names = FALSE, col.names = FALSE,
                append = TRUE)
}

coefficients_of <- function(file, family, table, names) {
    rows <- rownames(table)
    stopifnot(all(rows %in% base::names(names)))
    columns <- c("estimate", "std_err", "statistic", "p_value")
    for (j in seq_len(min(4, ncol(table)))) say(file, family, columns[j], names[rows], table[, j])
}

robust_of <- function(file, family, fit, names) {
    for (kind in c("HC0", "HC1", "HC2", "HC3")) {
        covariance <- vcovHC(fit, type = kind)
        say(file, family, kind, names[rownames(covariance)], sqrt(diag(covariance)))
    }
}

fit_of <- function(file, family, fit) {
    say(file, family, "log_likelihood", "", logLik(fit))
    say(file, family, "aic", "", AIC(fit))
    say(file, family, "bic", "", BIC(fit))
    say(file, family, "deviance", "", deviance(fit))
}

# The test of each term: the whole model against the one without it.
terms_of <- function(file, family, fit, test, statistic, p) {
    unfinished <- FALSE
    table <- withCallingHandlers(drop1(fit, test = test), warning = function(w) {
        if (grepl("converge", conditionMessage(w))) unfinished <<- TRUE
    })
    if (unfinished) return(invisible())
    rows <- rownames(table)[-1]
    say(file, family, paste0("statistic of ", test), gsub("`", "", rows), table[rows, statistic])
    say(file, family, paste0("p_value of ", test), gsub("`", "", rows), table[rows, p])
}

linear <- function(file, frame, formula, names) {
    fit <- lm(formula, frame)
    if (summary(fit)$sigma < 1e-8 * sd(model.response(model.frame(fit)))) stop(EXACT)
    coefficients_of(file, "linear", summary(fit)$coefficients, names)
    fit_of(file, "linear", fit)
    say(file, "linear", "r2", "", summary(fit)$r.squared)
    if (max(hatvalues(fit)) < 1 - 1e-8) robust_of(file, "linear", fit, names)
    terms_of(file, "linear", fit, "F", "F value", "Pr(>F)")
    say(file, "linear", "prediction", seq_len(PREDICTIONS), head(fitted(fit), PREDICTIONS))
}

general <- function(file, frame, formula, names, task, family) {
    fit <- glm(formula, family, frame, control = PRECISE)
    if (!fit$converged || fit$boundary) stop(UNFINISHED)
    if (task %in% c("logistic", "poisson") && max(sqrt(diag(vcov(fit)))) > 100) stop(SEPARABLE)
    if (task == "logistic" && min(predict(fit) * (2 * fit$y - 1)) < -36) stop(CLAMPED)
    coefficients_of(file, task, summary(fit)$coefficients, names)
    fit_of(file, task, fit)
    say(file, task, "null_deviance", "", fit$null.deviance)
    if (max(hatvalues(fit)) < 1 - 1e-8) robust_of(file, task, fit, names)
    scaled <- if (task == "gamma") "scaled dev." else "LRT"
    terms_of(file, task, fit, "LRT", scaled, "Pr(>Chi)")
    say(file, task, "prediction", seq_len(PREDICTIONS), head(fitted(fit), PREDICTIONS))
}

overdispersed <- function(file, frame, formula, names) {
    fit <- glm.nb(formula, frame, control = glm.control(epsilon = 1e-12, maxit = 100))
    if (!fit$converged || !is.null(fit$th.warn) || fit$theta > 1e3) stop(UNFINISHED)
    if (max(sqrt(diag(vcov(fit)))) > 100) stop(SEPARABLE)
    coefficients_of(file, "negative_binomial", summary(fit)$coefficients, names)
    say(file, "negative_binomial", "log_likelihood", "", logLik(fit))
    say(file, "negative_binomial", "aic", "", AIC(fit))
    say(file, "negative_binomial", "dispersion", "", 1 / fit$theta)
    say(file, "negative_binomial", "prediction", seq_len(PREDICTIONS), head(fitted(fit), PREDICTIONS))
}

robust <- function(file, frame, formula, names) {
    fit <- rlm(formula, frame, maxit = 500, acc = 1e-12, scale.est = "MAD")
    if (!fit$converged) stop(UNFINISHED)
    if (fit$s < 1e-8 * sd(fit$x %*% coef(fit) + residuals(fit))) stop(EXACT)
    found <- summary(fit)$coefficients
    say(file, "huber", "estimate", names[rownames(found)], found[, 1])
    say(file, "huber", "std_err", names[rownames(found)], found[, 2])
    say(file, "huber", "scale", "", fit$s)
    delta <- 1.345 * fit$s
    size <- abs(residuals(fit))
    say(file, "huber", "loss", "", mean(ifelse(size < delta, size^2 / 2, delta * size - delta^2 / 2)))
}

quantiles <- function(file, frame, formula, names) {
    y <- model.response(model.frame(formula, frame))
    for (tau in TAUS) {
        fit <- suppressWarnings(rq(formula, tau, frame, method = "br"))
        residual <- y - fitted(fit)
        loss <- mean(pmax(tau * residual, (tau - 1) * residual))
        say(file, "quantile", sprintf("loss at %g", tau), "", loss)
    }
}

# Weights and covariance of a multinomial model: multinom's BFGS ends early, and its generalised inverse
# of the Hessian drops directions of little curvature, so a few steps of Newton's method follow.
sharpened <- function(fit, x) {
    weights <- t(coef(fit))
    classes <- ncol(weights)
    y <- fit$fitted.values + fit$residuals
    for (step in 1:30) {
        p <- exp(cbind(0, x %*% weights))
        p <- (p / rowSums(p))[, -1, drop = FALSE]
        gradient <- as.vector(crossprod(x, y[, -1] - p))
        hessian <- do.call(rbind, lapply(seq_len(classes), function(k) do.call(cbind, lapply(
            seq_len(classes), function(l) crossprod(x, x * (p[, k] * ((k == l) - p[, l])))))))
        size <- sqrt(diag(hessian))
        if (min(p, 1 - rowSums(p)) < 1e-13 || rcond(hessian / outer(size, size)) < 1e-14) stop(SEPARABLE)
        covariance <- solve(hessian / outer(size, size)) / outer(size, size)
        change <- covariance %*% gradient
        weights <- weights + as.vector(change)
        if (max(abs(change) / sqrt(diag(covariance))) < 1e-10) {
            return(list(weights = weights, errors = matrix(sqrt(diag(covariance)), ncol = classes), p = p))
        }
    }
    stop(UNFINISHED)
}

several_classes <- function(file, frame, formula, names) {
    fit <- multinom(formula, frame, trace = FALSE, maxit = 5000, abstol = 1e-14, reltol = 1e-15)
    x <- model.matrix(formula, frame)
    found <- sharpened(fit, x)
    for (k in seq_len(ncol(found$weights))) {
        term <- paste0(rownames(coef(fit))[k], ": ", names[colnames(x)])
        say(file, "several classes", "estimate", term, found$weights[, k])
        say(file, "several classes", "std_err", term, found$errors[, k])
    }
    p <- cbind(1 - rowSums(found$p), found$p)
    y <- as.integer(model.response(model.frame(formula, frame)))
    say(file, "several classes", "log_likelihood", "", sum(log(p[cbind(seq_along(y), y)])))
}

# The coefficients of the lasso at a few penalties, on two or more columns of numbers, as glmnet wants them.
paths <- function(file, frame, response, chosen) {
    x <- as.matrix(frame[, chosen, drop = FALSE])
    y <- frame[[response]]
    x <- sweep(x, 2, colMeans(x)) %*% diag(1 / apply(x, 2, function(v) sqrt(mean((v - mean(v))^2))), ncol(x))
    most <- max(abs(crossprod(x, y - mean(y)))) / length(y)
    for (share in c(0.5, 0.1, 0.01)) {
        lambda <- share * most
        fit <- glmnet(x, y, lambda = lambda, standardize = FALSE, thresh = 1e-16, maxit = 1e6)
        say(file, "lasso", sprintf("estimate at %g", share), chosen, as.numeric(fit$beta[, 1]))
        say(file, "lasso", "penalty", sprintf("%g", share), lambda)
    }
}

attempt <- function(file, family, action) {
    tryCatch(suppressWarnings(action), error = function(e) {
        message <- gsub("[[:space:]]+", " ", conditionMessage(e))
        ours <- message %in% c(EXACT, UNFINISHED, SEPARABLE, CLAMPED)
        writeLines(paste(file, family, if (ours) message else paste("R fails:", message), sep = "\t"), left_out)
    })
}

models_of <- function(file, frame, response, chosen) {
    formula <- reformulate(sprintf("`%s`", chosen), sprintf("`%s`", response))
    names <- spelt(frame, chosen)
    y <- frame[[response]]
    try_family <- function(family, action) attempt(file, family, action)
    if (is.factor(y)) {
        if (nlevels(y) == 2) try_family("logistic", general(file, frame, formula, names, "logistic", binomial()))
        if (nlevels(y) %in% 3:6) try_family("several classes", several_classes(file, frame, formula, names))
        return(invisible())
    }
    distinct <- length(unique(y))
    if (distinct >= 8) {
        try_family("linear", linear(file, frame, formula, names))
        try_family("huber", robust(file, frame, formula, names))
        try_family("quantile", quantiles(file, frame, formula, names))
        numbers <- Filter(function(name) is.numeric(frame[[name]]), chosen)
        if (length(chosen) > 1 && length(numbers) == length(chosen)) {
            try_family("lasso", paths(file, frame, response, chosen))
        }
        if (min(y) > 0) try_family("gamma", general(file, frame, formula, names, "gamma", Gamma("log")))
    }
    if (all(y >= 0 & y == round(y)) && distinct > 2 && max(y) >= 3 && max(y) < 1e5) {
        try_family("poisson", general(file, frame, formula, names, "poisson", poisson()))
        try_family("negative_binomial", overdispersed(file, frame, formula, names))
    }
}

# The responses of a data set: two of each kind.
responses <- function(frame) {
    of_kind <- function(test) head(Filter(function(name) test(frame[[name]]), names(frame)), 2)
    unique(c(
        of_kind(function(y) is.numeric(y) && length(unique(y)) >= 8),
        of_kind(function(y) is.numeric(y) && all(y >= 0 & y == round(y)) && length(unique(y)) > 2 && max(y) >= 3),
        of_kind(function(y) is.factor(y) && nlevels(y) == 2),
        of_kind(function(y) is.factor(y) && nlevels(y) %in% 3:6)
    ))
}

number <- 0
for (package in PACKAGES) {
    sets <- data_sets(package)
    for (name in sort(as.character(names(sets)), method = "radix")) {
        frame <- tryCatch(cleaned(sets[[name]]), error = function(e) NULL)
        if (is.null(frame) || ncol(frame) < 2) next
        for (response in responses(frame)) {
            chosen <- predictors(frame, response)
            if (!length(chosen)) next
            number <- number + 1
            file <- sprintf("%03d_%s_%s", number, name, response)
            write_rows(file, frame, response, chosen)
            models_of(file, frame, response, chosen)
        }
    }
}
close(results)
close(left_out)
