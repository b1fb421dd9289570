;;; edn-bridge-jobs.el --- Background jobs, widgets and statuses  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; What runs next to the conversation: background jobs in a buffer of
;; their own, and the widgets (the progress of a workflow, say) and status
;; texts that the bridge keeps, shown above the footer.

;;; Code:

(require 'cl-lib)
(require 'tabulated-list)
(require 'edn-bridge-chat)
(require 'edn-bridge-input)
(require 'edn-bridge-tools)
(require 'edn-bridge-view)

;;;; Widgets and statuses

(defvar-local edn-bridge-jobs--widgets nil
  "Lines of the widgets of this chat.")

(defvar-local edn-bridge-jobs--statuses nil
  "Lines of the statuses of this chat.")

(defvar-local edn-bridge-jobs--running nil
  "Background jobs that run: an alist from id to what each does.")

(defun edn-bridge-jobs--lines (value)
  "Return the lines of text that VALUE, a widget or a status, has."
  (cond
   ((stringp value) (list value))
   ((consp value)
    (let ((lines (or (plist-get value :content-lines)
                     (plist-get value :lines)
                     (plist-get value :text)
                     (plist-get value :message))))
      (mapcan #'edn-bridge-jobs--lines
              (if (stringp lines) (list lines) (append lines nil)))))))

(defun edn-bridge-jobs--on-widgets (data)
  "Show the widgets in DATA of `ui/widgets-updated'.
The tree of sessions has a buffer of its own."
  (when (edn-bridge-chat-mine-p data)
    (setq edn-bridge-jobs--widgets
          (mapcan (lambda (widget)
                    (unless (equal (plist-get widget :widget-id) "session-tree")
                      (edn-bridge-jobs--lines widget)))
                  (append (plist-get data :widgets) nil)))
    (edn-bridge-jobs--show-lines)))

(defun edn-bridge-jobs--on-statuses (data)
  "Show the statuses in DATA of `ui/status-updated'."
  (when (edn-bridge-chat-mine-p data)
    (setq edn-bridge-jobs--statuses
          (mapcan #'edn-bridge-jobs--lines
                  (append (plist-get data :statuses) nil)))
    (edn-bridge-jobs--show-lines)))

(defun edn-bridge-jobs--on-resumed (_data)
  "Forget the lines of the session that was shown before."
  (setq edn-bridge-jobs--widgets nil
        edn-bridge-jobs--statuses nil
        edn-bridge-jobs--running nil)
  (edn-bridge-jobs--show-lines))

(defun edn-bridge-jobs--show-lines ()
  "Show the lines of widgets and statuses above the footer."
  (edn-bridge-chat-set-status
   'edn-bridge-jobs
   (append edn-bridge-jobs--widgets edn-bridge-jobs--statuses
           (mapcar (lambda (entry)
                     (concat "Running in the background: " (cdr entry)))
                   edn-bridge-jobs--running))))

;;;; Jobs

(defvar-local edn-bridge-jobs--chat nil
  "The chat buffer whose jobs are shown.")

(edn-bridge-define-view-mode edn-bridge-jobs-mode tabulated-list-mode "Jobs"
  "Major mode of a session's background jobs."
  :keys (("RET" edn-bridge-jobs-inspect "output")
         ("d" edn-bridge-jobs-cancel "cancel"))
  (setq tabulated-list-format [("Status" 10 t) ("What" 56 t) ("Job" 0 t)]
        tabulated-list-padding 1)
  ;; The first line of the window names the keys.
  (setq-local tabulated-list-use-header-line nil
              revert-buffer-function #'edn-bridge-jobs--revert)
  (tabulated-list-init-header))

(defun edn-bridge-jobs ()
  "Show the background jobs of this chat's session."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-chat-current)
  (let ((chat (current-buffer))
        (buffer (get-buffer-create
                 (format "*%s jobs*" (edn-bridge-chat-name)))))
    (with-current-buffer buffer
      (edn-bridge-jobs-mode)
      (setq edn-bridge-jobs--chat chat)
      (edn-bridge-jobs--revert))
    (pop-to-buffer buffer)))

(defun edn-bridge-jobs--request (op params show)
  "Send OP with PARAMS, and call SHOW with the answer in this buffer."
  (edn-bridge-chat-ask-for edn-bridge-jobs--chat op params show))

(defun edn-bridge-jobs--revert (&rest _)
  "Ask for the jobs again and show them."
  (edn-bridge-jobs--request
   "list_background_jobs" nil
   (lambda (data)
     (setq tabulated-list-entries
           (mapcar #'edn-bridge-jobs--entry
                   (append (plist-get data :jobs) nil)))
     (tabulated-list-print t)
     (unless tabulated-list-entries
       (save-excursion
         (goto-char (point-max))
         (let ((inhibit-read-only t))
           (insert " There are no background jobs.\n"))))
     (edn-bridge-view-leave-heading))))

(defun edn-bridge-jobs--id (job)
  "Return the id of JOB."
  (or (plist-get job :job-id) (plist-get job :id)))

(defun edn-bridge-jobs--what (job)
  "Return what JOB does, in a line."
  (edn-bridge-visible-label
   (replace-regexp-in-string
    "[ \t\n]+" " "
    (format "%s" (or (plist-get job :command)
                     (plist-get job :label)
                     (plist-get job :name)
                     "")))))

(defun edn-bridge-jobs--status (job)
  "Return the status of JOB, with its exit status where that is not 0."
  (let ((status (or (edn-bridge-chat-word (plist-get job :status)) ""))
        (code (plist-get job :exit-code)))
    (if (and (integerp code) (/= code 0))
        (format "%s (exit %d)" status code)
      status)))

(defun edn-bridge-jobs--entry (job)
  "Return the table's entry for JOB."
  (list (edn-bridge-jobs--id job)
        (vector (edn-bridge-jobs--status job)
                (edn-bridge-jobs--what job)
                (format "%s" (edn-bridge-jobs--id job)))))

;;;; One job

(defvar-local edn-bridge-jobs--id nil
  "Id of the job that this buffer shows.")

(defvar-local edn-bridge-jobs--timer nil
  "Timer that looks for new output of this buffer's job, or nil.")

(defconst edn-bridge-jobs--pause 1
  "How many seconds pass between two looks at the output of a job.")

(edn-bridge-define-view-mode edn-bridge-jobs-view-mode special-mode "Job"
  "Major mode of what is known of a background job.
It follows the job while it is seen."
  (edn-bridge-visible-setup)
  (setq-local revert-buffer-function #'edn-bridge-jobs--revert-view))

(defun edn-bridge-jobs-inspect ()
  "Show the job at point in this window: what it does, and its output."
  (interactive nil edn-bridge-jobs-mode)
  (let ((id (or (tabulated-list-get-id) (user-error "No job here")))
        (chat edn-bridge-jobs--chat)
        (buffer (get-buffer-create "*edn-bridge job*")))
    (with-current-buffer buffer
      (edn-bridge-jobs-view-mode)
      (setq edn-bridge-jobs--chat chat
            edn-bridge-jobs--id id)
      (edn-bridge-jobs--revert-view))
    (pop-to-buffer-same-window buffer)))

(defun edn-bridge-jobs--revert-view (&rest _)
  "Ask for the job of this buffer again and show it."
  (edn-bridge-jobs--request
   "inspect_background_job" (list :job-id edn-bridge-jobs--id)
   (lambda (data)
     (edn-bridge-jobs--show-job (plist-get data :job)))))

(defun edn-bridge-jobs--show-job (job)
  "Show JOB in this buffer.
Windows at the end stay there, others where they are."
  (let* ((inhibit-read-only t)
         (followers (seq-filter (lambda (window)
                                  (= (window-point window) (point-max)))
                                (get-buffer-window-list nil nil t)))
         (places (mapcar (lambda (window)
                           (cons window (window-point window)))
                         (get-buffer-window-list nil nil t)))
         (output (plist-get job :output))
         (handle (plist-get job :handle)))
    (erase-buffer)
    (insert (propertize (edn-bridge-jobs--what job) 'face 'edn-bridge-title) "\n")
    (pcase-dolist (`(,name ,value)
                   (list (list "status" (edn-bridge-jobs--status job))
                         (list "started" (edn-bridge-chat-time
                                          (plist-get job :started-at)))
                         (list "ended" (edn-bridge-chat-time
                                        (plist-get job :ended-at)))
                         (list "job" (edn-bridge-jobs--id job))))
      (when (and (stringp value) (not (equal value "")))
        (insert (propertize (format "%-8s" name) 'face 'edn-bridge-muted)
                (edn-bridge-visible-label value) "\n")))
    (insert "\n")
    (when handle
      (let ((chat edn-bridge-jobs--chat))
        (insert-text-button "[Whole output]"
                            'face 'edn-bridge-button 'follow-link t
                            'action (lambda (_button)
                                      (with-current-buffer chat
                                        (edn-bridge-tools-view-output
                                         handle)))))
      (insert "\n"))
    (when (stringp output)
      (insert (edn-bridge-visible-break output 0)))
    (edn-bridge-visible-region (point-min) (point-max) 'strict)
    (pcase-dolist (`(,window . ,place) places)
      (set-window-point window (if (memq window followers)
                                   (point-max)
                                 (min place (point-max)))))
    (edn-bridge-jobs--follow job)))

(defun edn-bridge-jobs--follow (job)
  "Where JOB, which this buffer shows, runs, look soon for what it writes.
The bridge tells when a job begins and ends, not when it writes."
  (when edn-bridge-jobs--timer
    (cancel-timer edn-bridge-jobs--timer))
  (setq edn-bridge-jobs--timer
        (and (equal (edn-bridge-chat-word (plist-get job :status)) "running")
             (run-at-time edn-bridge-jobs--pause nil
                          #'edn-bridge-jobs--look (current-buffer)))))

(defun edn-bridge-jobs--look (buffer)
  "Show in BUFFER what its job has written since, if BUFFER is in a window."
  (when (buffer-live-p buffer)
    (with-current-buffer buffer
      (setq edn-bridge-jobs--timer nil)
      (when (and (get-buffer-window buffer t)
                 (buffer-live-p edn-bridge-jobs--chat)
                 (edn-bridge-rpc-live-p
                  (buffer-local-value 'edn-bridge-chat--conn
                                      edn-bridge-jobs--chat)))
        (edn-bridge-jobs--revert-view)))))

(defun edn-bridge-jobs-cancel ()
  "End the job at point."
  (interactive nil edn-bridge-jobs-mode)
  (edn-bridge-jobs--request
   "cancel_background_job"
   (list :job-id (or (tabulated-list-get-id) (user-error "No job here")))
   (lambda (_data) (edn-bridge-jobs--revert))))

(defun edn-bridge-jobs--on-job (data)
  "Show how the job of DATA of `job/updated' goes, wherever that is seen."
  (let ((chat (current-buffer)))
    (when (edn-bridge-chat-mine-p data)
      (edn-bridge-jobs--note (plist-get data :job)))
    (dolist (buffer (buffer-list))
      (when (and (eq (buffer-local-value 'edn-bridge-jobs--chat buffer) chat)
                 (get-buffer-window buffer t))
        (with-current-buffer buffer
          (revert-buffer))))))

(defun edn-bridge-jobs--note (job)
  "Show in this chat that JOB runs, or that it has ended.
That it failed the bridge says by itself."
  (let* ((id (edn-bridge-jobs--id job))
         (running (equal (edn-bridge-chat-word (plist-get job :status))
                         "running"))
         (known (assoc id edn-bridge-jobs--running)))
    (cond
     ((null id))
     ((and running (not known))
      (setq edn-bridge-jobs--running
            (append edn-bridge-jobs--running
                    (list (cons id (edn-bridge-jobs--what job)))))
      (edn-bridge-jobs--show-lines))
     ((and known (not running))
      (setq edn-bridge-jobs--running (delq known edn-bridge-jobs--running))
      (edn-bridge-jobs--show-lines)
      (unless (equal (edn-bridge-chat-word (plist-get job :status)) "failed")
        (edn-bridge-chat-notice (format "Background job %s: %s"
                                        (edn-bridge-jobs--status job)
                                        (cdr known))))))))

(edn-bridge-chat-handle "ui/widgets-updated" #'edn-bridge-jobs--on-widgets)
(edn-bridge-chat-handle "ui/status-updated" #'edn-bridge-jobs--on-statuses)
(edn-bridge-chat-handle "session/resumed" #'edn-bridge-jobs--on-resumed)
(edn-bridge-chat-handle "job/updated" #'edn-bridge-jobs--on-job)

(edn-bridge-input-handle "jobs" #'edn-bridge-jobs)

(define-key edn-bridge-chat-mode-map (kbd "C-c C-j") #'edn-bridge-jobs)

(provide 'edn-bridge-jobs)

;;; edn-bridge-jobs.el ends here
