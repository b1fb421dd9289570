;;; edn-bridge-diagnostics.el --- What checkers say of an edit  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; After the agent has changed a file that is open, the bridge asks what the
;; checkers of its buffer report that is new: Flymake, and by it Eglot, or
;; Flycheck.  They are started, and their reports awaited for a moment.
;;
;; What a buffer's checkers have reported is noted before the agent's first
;; change in a turn, and again with each answer.  So what comes late is part
;; of the answer after the next change.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'warnings)
(require 'edn-bridge-edn)

(defcustom edn-bridge-diagnostics-share t
  "Non-nil means that the agent gets diagnostics of the files that it changes.
They are those of Flymake or Flycheck that are new since its change."
  :type 'boolean
  :group 'edn-bridge)

(defconst edn-bridge-diagnostics--count 200
  "How many diagnostics are sent at most.")

(defconst edn-bridge-diagnostics--length 1000
  "How many characters of a diagnostic are sent at most.")

(defconst edn-bridge-diagnostics--pause 0.05
  "Seconds between two looks whether checkers have reported.")

(declare-function flymake-diagnostics "flymake" (&optional beg end))
(declare-function flymake-diagnostic-beg "flymake" (diag) t)
(declare-function flymake-diagnostic-text "flymake" (diag &rest args) t)
(declare-function flymake-diagnostic-type "flymake" (diag) t)
(declare-function flymake--severity "flymake" (type))
(declare-function flymake-running-backends "flymake" ())
(declare-function flymake-reporting-backends "flymake" ())
(declare-function flymake-start "flymake" (&optional deferred force))
(declare-function eglot--signal-textDocument/didChange "ext:eglot" ())
(defvar eglot--current-flymake-report-fn)
(defvar flycheck-current-errors)
(defvar flycheck-last-status-change)
(declare-function flycheck-error-line "ext:flycheck" (err) t)
(declare-function flycheck-error-column "ext:flycheck" (err) t)
(declare-function flycheck-error-level "ext:flycheck" (err) t)
(declare-function flycheck-error-message "ext:flycheck" (err) t)
(declare-function flycheck-error-checker "ext:flycheck" (err) t)
(declare-function flycheck-running-p "ext:flycheck" ())
(declare-function flycheck-stop "ext:flycheck" ())
(declare-function flycheck-buffer "ext:flycheck" ())

(defvar-local edn-bridge-diagnostics--known nil
  "A turn, and the diagnostics of this buffer that are not new in it.
These are t if no checker had reported.")

(defvar-local edn-bridge-diagnostics--awaits-server nil
  "Non-nil while Eglot's server has not reported on this buffer's new text.")

;;;; The checkers

(defun edn-bridge-diagnostics-checked-p ()
  "Return non-nil if checkers report on this buffer, and the agent may know."
  (and edn-bridge-diagnostics-share
       (or (bound-and-true-p flymake-mode)
           (bound-and-true-p flycheck-mode))))

(defun edn-bridge-diagnostics--start ()
  "Have the checkers look at this buffer's text as it is now."
  (when (bound-and-true-p flycheck-mode)
    (when (flycheck-running-p) (flycheck-stop))
    (flycheck-buffer))
  (when (bound-and-true-p flymake-mode)
    (flymake-start)
    (setq edn-bridge-diagnostics--awaits-server nil)
    ;; Eglot reports what it knows at once, and again when its server has
    ;; looked at the new text.
    (when (and (bound-and-true-p eglot--managed-mode)
               (bound-and-true-p eglot--current-flymake-report-fn))
      (setq edn-bridge-diagnostics--awaits-server t)
      (let ((report eglot--current-flymake-report-fn)
            (buffer (current-buffer)))
        (setq eglot--current-flymake-report-fn
              (lambda (&rest args)
                (when (buffer-live-p buffer)
                  (with-current-buffer buffer
                    (setq edn-bridge-diagnostics--awaits-server nil)))
                (apply report args))))
      (eglot--signal-textDocument/didChange))))

(defun edn-bridge-diagnostics--reported-p ()
  "Return non-nil if all checkers that were started have reported."
  (and (not (and (bound-and-true-p flycheck-mode)
                 (or (flycheck-running-p)
                     (eq (bound-and-true-p flycheck-last-status-change)
                         'running))))
       (not (and (bound-and-true-p flymake-mode)
                 (or edn-bridge-diagnostics--awaits-server
                     (cl-set-difference (flymake-running-backends)
                                        (flymake-reporting-backends)))))))

(defun edn-bridge-diagnostics--have-reported-p ()
  "Return non-nil if a checker has ever reported on this buffer."
  (or (and (bound-and-true-p flymake-mode) (flymake-reporting-backends))
      (and (bound-and-true-p flycheck-mode)
           (memq (bound-and-true-p flycheck-last-status-change)
                 '(finished)))))

(defun edn-bridge-diagnostics--now ()
  "Return what the checkers report on this buffer now, a list of plists.
It is in the order of the places."
  (let ((found
         (save-excursion
           (save-restriction
             (widen)
             (append
              (and (bound-and-true-p flymake-mode)
                   (mapcar #'edn-bridge-diagnostics--of-flymake
                           (flymake-diagnostics)))
              (and (bound-and-true-p flycheck-mode)
                   (delq nil
                         (mapcar #'edn-bridge-diagnostics--of-flycheck
                                 (bound-and-true-p
                                  flycheck-current-errors)))))))))
    (cl-flet ((place (diagnostic)
                (+ (* 100000 (plist-get diagnostic :line))
                   (min 99999 (or (plist-get diagnostic :column) 0)))))
      (sort found (lambda (a b) (< (place a) (place b)))))))

(defun edn-bridge-diagnostics--text (text)
  "Return TEXT without properties and not too long."
  (let ((text (substring-no-properties (format "%s" text))))
    (substring text 0 (min (length text) edn-bridge-diagnostics--length))))

(defun edn-bridge-diagnostics--of-flymake (diagnostic)
  "Return DIAGNOSTIC of Flymake as a plist."
  (goto-char (flymake-diagnostic-beg diagnostic))
  (let ((severity (flymake--severity (flymake-diagnostic-type diagnostic))))
    (list :line (line-number-at-pos)
          :column (1+ (- (point) (line-beginning-position)))
          :severity (cond
                     ((>= severity (warning-numeric-level :error)) "error")
                     ((>= severity (warning-numeric-level :warning)) "warning")
                     (t "note"))
          :message (edn-bridge-diagnostics--text
                    (flymake-diagnostic-text diagnostic)))))

(defun edn-bridge-diagnostics--of-flycheck (err)
  "Return the error ERR of Flycheck as a plist, or nil if it has no line."
  (when-let ((line (flycheck-error-line err)))
    (let ((column (flycheck-error-column err))
          (level (flycheck-error-level err))
          (checker (flycheck-error-checker err)))
      (append
       (list :line line)
       (and column (list :column column))
       (list :severity (pcase level
                         ('error "error")
                         ('warning "warning")
                         (_ "note"))
             :message (edn-bridge-diagnostics--text
                       (or (flycheck-error-message err) "")))
       (and checker (list :source (format "%s" checker)))))))

;;;; What is new

(defun edn-bridge-diagnostics--key (diagnostic)
  "Return what DIAGNOSTIC says, wherever it stands: lines move by an edit."
  (cons (plist-get diagnostic :severity) (plist-get diagnostic :message)))

(defun edn-bridge-diagnostics--new (now known)
  "Return those of NOW that are not in KNOWN.
Of equal ones, as many are new as there are more than before."
  (let ((left (mapcar #'edn-bridge-diagnostics--key known)))
    (cl-remove-if
     (lambda (diagnostic)
       (let ((key (edn-bridge-diagnostics--key diagnostic)))
         (when (member key left)
           (setq left (cl-remove key left :test #'equal :count 1))
           t)))
     now)))

(defun edn-bridge-diagnostics-note (turn)
  "Note what the checkers report on this buffer before it is changed in TURN."
  (when (and (edn-bridge-diagnostics-checked-p)
             (not (equal turn (car edn-bridge-diagnostics--known))))
    (setq edn-bridge-diagnostics--known
          (cons turn (or (not (edn-bridge-diagnostics--have-reported-p))
                         (edn-bridge-diagnostics--now))))))

(defun edn-bridge-diagnostics--take (turn)
  "Return what is new on this buffer in TURN, a vector, and note it as known."
  (let* ((now (edn-bridge-diagnostics--now))
         (known (and (equal turn (car edn-bridge-diagnostics--known))
                     edn-bridge-diagnostics--known))
         (new (and (listp (cdr known)) known
                   (edn-bridge-diagnostics--new now (cdr known)))))
    (setq edn-bridge-diagnostics--known (cons turn now))
    (vconcat (seq-take new edn-bridge-diagnostics--count))))

(defun edn-bridge-diagnostics-ask (turn seconds answer)
  "Have this buffer checked, and call ANSWER with what is new in TURN.
It is called with a vector of plists, at the latest after SECONDS."
  (edn-bridge-diagnostics--start)
  (let ((buffer (current-buffer))
        (end (+ (float-time) seconds))
        (timer nil))
    (setq timer
          (run-at-time
           0 edn-bridge-diagnostics--pause
           (lambda ()
             (if (not (buffer-live-p buffer))
                 (cancel-timer timer)
               (with-current-buffer buffer
                 (when (or (>= (float-time) end)
                           (edn-bridge-diagnostics--reported-p))
                   (cancel-timer timer)
                   (funcall answer
                            (if (edn-bridge-diagnostics-checked-p)
                                (edn-bridge-diagnostics--take turn)
                              []))))))))))

(provide 'edn-bridge-diagnostics)

;;; edn-bridge-diagnostics.el ends here
